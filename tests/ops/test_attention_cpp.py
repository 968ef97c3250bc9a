"""Attention in C++: lengths around the sizes of its blocks, few queries, slices of the keys, and layouts."""

import itertools
import math

import pytest
import torch

import kernellab as kl
from kernellab.ops.attention import cpp
from kernellab.ops.attention.settings import Settings
from support.functional_calls import assert_as_exact, values

# batch, heads, groups, queries, keys, columns
SIZES = {
    "one block": (1, 2, 2, 64, 96, 16),
    "just beyond blocks": (1, 2, 1, 65, 97, 17),
    "several blocks": (1, 1, 1, 130, 200, 40),
    "a wide head": (1, 1, 1, 20, 30, 256),
    "groups whose heads share a block": (2, 6, 2, 9, 100, 24),
    "groups whose heads need two blocks": (1, 10, 1, 15, 33, 8),
    "few queries": (2, 8, 2, 2, 230, 72),
    "one query": (1, 3, 3, 1, 300, 33),
    "seven queries": (1, 1, 1, 7, 100, 5),
    "slices of keys": (1, 2, 1, 70, 1100, 8),
    "more queries than keys": (1, 1, 1, 150, 3, 16),
}
OPTIONS = [
    {},
    {"causal": "top_left"},
    {"causal": "bottom_right", "scale": -0.1},
    {"window": 5},
    {"causal": "bottom_right", "window": 40, "dropout_p": 0.3, "seed": 5, "offset": 1 << 33},
]


def make(size, dtype=torch.float32, *, biased=False):
    """q, k, v and a bias, and the upstream gradient."""
    batch, heads, groups, queries, keys, columns = size
    q, k, v = (
        values(batch, length, count, columns, seed=seed).to(dtype).transpose(1, 2)
        for seed, (length, count) in enumerate(((queries, heads), (keys, groups), (keys, groups)))
    )
    bias = values(batch, heads, queries, keys, seed=3).to(dtype) if biased else None
    return (q, k, v, bias), values(batch, heads, queries, columns, seed=4).to(dtype)


def value_and_gradients(implementation, inputs, upstream, **options):
    leaves = [None if x is None else x.detach().requires_grad_() for x in inputs]
    y = implementation(*leaves, **options)
    given = [x for x in leaves if x is not None]
    return (y.detach(),), torch.autograd.grad(y, given, upstream.to(y.dtype))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_results_and_gradients_are_as_exact_as_those_of_the_readable_algorithm(size, options):
    op = kl.ops.attention
    inputs, upstream = make(SIZES[size], biased="window" not in options)
    exact = [None if x is None else x.double() for x in inputs]
    assert_as_exact(
        value_and_gradients(op["cpp"], inputs, upstream, **options),
        value_and_gradients(op["tiled"], inputs, upstream, **options),
        value_and_gradients(op.reference, exact, upstream, **options),
    )


@pytest.mark.parametrize("size", ["one block", "few queries"])
def test_bfloat16_is_rounded_at_the_end_alone(size):
    op = kl.ops.attention
    inputs, _ = make(SIZES[size], torch.bfloat16, biased=True)
    exact = [x.double() for x in inputs]
    y = op["cpp"](*inputs, causal="bottom_right")
    expected = op.reference(*exact, causal="bottom_right")
    assert (y.double() - expected).abs().max() <= torch.finfo(torch.bfloat16).eps * expected.abs().max()


def test_only_the_gradients_that_are_wanted_are_computed():
    inputs, upstream = make(SIZES["just beyond blocks"], biased=True)
    settings = Settings("bottom_right")
    y, lse = cpp.forward(*inputs, settings)
    everything = cpp.backward(upstream, *inputs, y, lse, settings, [True] * 4)
    for wanted in itertools.product((False, True), repeat=4):
        gradients = cpp.backward(upstream, *inputs, y, lse, settings, wanted)
        assert [x is not None for x in gradients] == list(wanted)
        assert all(torch.equal(x, y) for x, y in zip(gradients, everything, strict=True) if x is not None)


def test_lse_is_a_natural_logarithm_and_a_query_that_sees_no_key_gives_0():
    for queries, keys in ((70, 5), (3, 2)):
        (q, k, v, _), upstream = make((1, 1, 1, queries, keys, 8))
        settings = Settings("bottom_right")
        y, lse = cpp.forward(q, k, v, None, settings)
        scores = q @ k.transpose(-1, -2) / math.sqrt(8)
        seen = settings.band(queries, keys).seen(torch.arange(queries), torch.arange(keys))
        torch.testing.assert_close(lse, scores.masked_fill(~seen, -math.inf).logsumexp(-1))
        blind = queries - keys
        assert lse[0, 0, :blind].tolist() == [-math.inf] * blind
        assert not y[:, :, :blind].any()
        dq, dk, dv, _ = cpp.backward(upstream, q, k, v, None, y, lse, settings, [True, True, True, False])
        assert not dq[:, :, :blind].any()
        assert all(x.isfinite().all() for x in (dq, dk, dv))


@pytest.mark.parametrize("size", ["several blocks", "slices of keys", "few queries"])
def test_results_and_gradients_are_the_same_bits_with_any_number_of_threads(size):
    inputs, upstream = make(SIZES[size])
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(value_and_gradients(kl.ops.attention["cpp"], inputs, upstream, causal="top_left"))
    finally:
        torch.set_num_threads(before)
    first, *others = ([*values, *gradients] for values, gradients in results)
    assert all(torch.equal(x, y) for other in others for x, y in zip(first, other, strict=True))


LAYOUTS = {
    "heads first": lambda x: x.contiguous(),
    "columns apart": lambda x: torch.stack((x, x), -1)[..., 0],
    "rows apart": lambda x: torch.stack((x, x), -2)[..., 0, :],
    "backwards in a batch": lambda x: x.flip(0).contiguous().flip(0),
    "one for all heads": lambda x: x[:, :1].contiguous().expand(x.shape),
    "one row": lambda x: x[:, :, :1].contiguous().expand(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("queries", [2, 20])
def test_any_layout_gives_the_result_of_copies(layout, queries):
    inputs, upstream = make((2, 4, 2, queries, 130, 24), biased=True)
    views = [LAYOUTS[layout](x) for x in inputs]
    ours = value_and_gradients(kl.ops.attention["cpp"], views, LAYOUTS[layout](upstream))
    copies = value_and_gradients(kl.ops.attention["cpp"], [x.contiguous() for x in views], LAYOUTS[layout](upstream))
    torch.testing.assert_close(ours, copies, rtol=0, atol=0)


def test_an_unknown_dtype_is_refused_by_name():
    x = torch.zeros(1, 1, 2, 8, dtype=torch.int32)
    with pytest.raises(TypeError, match=r"torch\.int32"):
        kl.ops.attention["cpp"](x, x, x)
