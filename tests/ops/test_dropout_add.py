"""Dropout with addition: what the tests of all ops do not cover."""

import math

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from kernellab.ops import philox
from kernellab.ops.philox import Stream
from support.ops import DTYPES, INTERLEAVED, LAYOUTS

CPU = torch.device("cpu")
OPTIONS = dict(p=0.5, seed=(1 << 40) + 3, offset=(1 << 33) + 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", [*LAYOUTS, *INTERLEAVED])
def test_the_mask_depends_on_the_index_and_not_on_the_layout(layout, dtype):
    """A tensor of ones and a residual of zeros, in every layout, show the mask; so does the gradient of a sum."""
    view = {**LAYOUTS, **INTERLEAVED}[layout]
    x, residual = (view(t.to(dtype)) for t in (torch.ones(20, 60), torch.zeros(20, 60)))
    mask = Stream(OPTIONS["seed"], OPTIONS["offset"]).words(x.shape, CPU) < 1 << 31
    for addend in (residual, torch.zeros(x.shape, dtype=dtype)):
        leaf = x.detach().requires_grad_()
        y = kl.ops.dropout_add["cpp"](leaf, addend, **OPTIONS)
        assert torch.equal(y, (2 * mask).to(dtype))
        for upstream in (torch.ones((), dtype=dtype).expand(x.shape), x):
            (gradient,) = torch.autograd.grad(y, leaf, upstream, retain_graph=True)
            assert torch.equal(gradient, (2 * mask).to(dtype))


def test_strides_are_pytorchs():
    for view in {**LAYOUTS, **INTERLEAVED}.values():
        x, residual = view(torch.randn(20, 60)), torch.randn(view(torch.empty(20, 60)).shape)
        y = kl.ops.dropout_add["cpp"](x, residual, **OPTIONS)
        assert y.numel() == 0 or y.stride() == (F.dropout(x, 0.5) + residual).stride()


def test_nothing_is_saved_for_the_backward_pass():
    x = torch.randn(4, 8, requires_grad=True)
    y = kl.ops.dropout_add["cpp"](x, x, **OPTIONS)
    assert y.grad_fn.saved_tensors == ()


def test_the_gradient_of_the_residual_is_the_upstream_gradient():
    x, residual, upstream = torch.randn(4, 8), torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
    (gradient,) = torch.autograd.grad(kl.ops.dropout_add["cpp"](x, residual, **OPTIONS), residual, upstream)
    assert torch.equal(gradient, upstream)


@pytest.mark.parametrize("impl", ["manual", "cpp"])
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_probabilities_give_pytorchs_results(impl, p):
    x = torch.tensor([1.5, -2.0, 0.0, math.inf, -math.inf, math.nan, 3e38])
    residual = torch.tensor([1.0, 1e-8, -0.0, 1.0, 1.0, 1.0, 3e38])
    y = kl.ops.dropout_add[impl](x, residual, p=p, seed=1, offset=0)
    assert torch.equal(y.nan_to_num(7.0), (F.dropout(x, p) + residual).nan_to_num(7.0))


@pytest.mark.parametrize("impl", ["manual", "cpp"])
def test_an_infinity_that_is_dropped_is_nan_as_in_pytorch(impl):
    y = kl.ops.dropout_add[impl](torch.full((64,), math.inf), torch.zeros(64), **OPTIONS)
    mask = Stream(OPTIONS["seed"], OPTIONS["offset"]).words((64,), CPU) < 1 << 31
    assert torch.equal(y.isnan(), ~mask)
    assert torch.equal(y.isposinf(), mask)
    own = F.dropout(torch.full((64,), math.inf), 0.5)
    assert bool((own.isnan() | own.isposinf()).all() and own.isnan().any())


def test_other_seeds_and_offsets_have_masks_of_their_own():
    ones = torch.ones(4096)
    results = [
        kl.ops.dropout_add["cpp"](ones, ones, p=0.5, seed=seed, offset=offset)
        for seed, offset in ((1, 0), (2, 0), (1, 1), (1 + (1 << 32), 0), (1, 1 << 32))
    ]
    for number, first in enumerate(results):
        for second in results[number + 1 :]:
            assert 0.4 < float((first == second).float().mean()) < 0.6


def test_cpp_gives_the_same_result_with_any_number_of_threads():
    before, x = torch.get_num_threads(), torch.randn(300, 501)
    try:
        runs = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            runs.append(kl.ops.dropout_add["cpp"](x, x, **OPTIONS))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(runs[0], other) for other in runs[1:])


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_probability_outside_0_to_1_is_refused(p):
    with pytest.raises(ValueError, match="a probability is from 0 to 1"):
        kl.ops.dropout_add["cpp"](torch.ones(4), torch.ones(4), p=p, seed=1, offset=0)


@pytest.mark.parametrize("residual", [torch.ones(8), torch.ones(4, dtype=torch.bfloat16)], ids=["shape", "dtype"])
def test_a_residual_of_another_shape_or_dtype_is_refused(residual):
    with pytest.raises(ValueError, match="one shape and dtype"):
        kl.ops.dropout_add["cpp"](torch.ones(4), residual, **OPTIONS)


def test_the_compiled_reference_draws_the_same_mask(monkeypatch):
    """So it is compared value by value. With two rounds, because compiling ten takes long."""
    monkeypatch.setattr(philox, "ROUNDS", 2)
    x, residual = torch.randn(8, 33), torch.randn(8, 33)
    compiled = kl.ops.dropout_add["compile"](x, residual, **OPTIONS)
    assert torch.allclose(compiled, kl.ops.dropout_add(x, residual, **OPTIONS))
