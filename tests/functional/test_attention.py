"""Attention in models: the semantics of PyTorch's scaled_dot_product_attention, whichever of the two serves."""

import inspect
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import kernellab as kl
from support.functional_calls import assert_as_exact, outcome, values
from support.serving import OPERATORS, own_table

attend = kl.functional.scaled_dot_product_attention
NAME = "scaled_dot_product_attention"


@pytest.fixture
def served(monkeypatch):
    """What the operator was called with."""
    called = []
    operator = OPERATORS["attention"]
    monkeypatch.setattr(operator, "call", lambda *args, c=operator.call: (called.append(args), c(*args))[1])
    return called


def heads(length, count=4, *, columns=16, seed=0, dtype=torch.float32):
    """As a projection gives them: [2, count, length, columns], side by side in memory."""
    return values(2, length, count, columns, seed=seed).to(dtype).transpose(1, 2)


Q, K, V = (heads(7, seed=seed) for seed in range(3))
KEPT = torch.rand(7, 7, generator=torch.Generator().manual_seed(0)) < 0.6
KEPT[2] = False
LONG = [heads(9, 2, seed=seed) for seed in (1, 2)]
SERVED = {
    "plain": ((Q, K, V), {}),
    "causal": ((Q, K, V), {"is_causal": True}),
    "a scale": ((Q, K, V), {"scale": 0.5}),
    "grouped heads, causal": ((Q, *LONG), {"enable_gqa": True, "is_causal": True}),
    "one query": ((heads(1), K, V), {}),
    "causal, more queries than keys": ((heads(9), K, V), {"is_causal": True}),
    "a mask of numbers": ((Q, K, V), {"attn_mask": values(2, 4, 7, 7)}),
    "a mask for all heads": ((Q, K, V), {"attn_mask": values(2, 1, 7, 7)}),
    "a mask of keys": ((Q, K, V), {"attn_mask": values(1, 7)}),
    "a bool mask, one row of it empty": ((Q, K, V), {"attn_mask": KEPT}),
    "a bool mask for each batch": ((Q, K, V), {"attn_mask": torch.stack([KEPT, KEPT.T])[:, None]}),
    "a mask of numbers, one row of it −∞": ((Q, K, V), {"attn_mask": torch.zeros(7, 7).masked_fill(~KEPT, -math.inf)}),
    "no queries": ((Q[:, :, :0], K, V), {}),
    "no keys": ((Q, K[:, :, :0], V[:, :, :0]), {}),
    "columns not side by side": ((Q.transpose(2, 3).contiguous().transpose(2, 3), K, V), {}),
    "negated lazily": ((torch._neg_view(Q), K, torch._neg_view(V)), {}),
}


@pytest.mark.parametrize("name", SERVED)
def test_results_gradients_and_strides_are_pytorchs(name, served):
    inputs, options = SERVED[name]
    ours, theirs = (outcome(inputs, lambda *x, f=f: f(*x, **options)) for f in (attend, F.scaled_dot_product_attention))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    if name not in ("columns not side by side", "no queries", "no keys"):
        assert ours[0][0].stride() == theirs[0][0].stride()
    assert len(served) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_errors_are_those_of_pytorch(dtype, served):
    inputs = [heads(33, seed=seed, dtype=dtype) for seed in range(3)]
    results = [
        outcome([x.to(dtype_of) for x in inputs], lambda *x, f=f: f(*x, is_causal=True), dtype)
        for f, dtype_of in ((attend, dtype), (F.scaled_dot_product_attention, dtype), (attend, torch.float64))
    ]
    assert_as_exact(*results)
    assert len(served) == 2


def test_a_query_that_sees_no_key_gives_0_and_gets_no_gradient():
    options = {"attn_mask": KEPT}
    (y,), (dq, *_) = outcome((Q, K, V), lambda *x: attend(*x, **options))
    assert not y[:, :, 2].any()
    assert not dq[:, :, 2].any()


def test_a_mask_of_numbers_that_is_broadcast_gets_its_gradient(served):
    mask = values(2, 1, 7, 7)
    ours, theirs = (
        outcome((Q, K, V, mask), lambda q, k, v, mask, f=f: f(q, k, v, attn_mask=mask))
        for f in (attend, F.scaled_dot_product_attention)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours[1][3].shape == mask.shape
    assert len(served) == 1


NOT_COVERED = {
    "values of another width": ((Q, K, heads(7, columns=8, seed=2)), {}),
    "three dims": ((Q[0], K[0], V[0]), {}),
    "dropout": ((Q, K, V), {"dropout_p": 0.5}),
    "a mask and causal": ((Q, K, V), {"attn_mask": KEPT, "is_causal": True}),
    "a mask of other numbers": ((*(x.bfloat16() for x in (Q, K, V)),), {"attn_mask": values(7, 7)}),
    "keys that are broadcast": ((Q, K[:1], V[:1]), {}),
    "heads that are broadcast": ((Q, K[:, :1], V[:, :1]), {}),
}


@pytest.mark.parametrize("case", NOT_COVERED)
def test_what_the_kernels_do_not_cover_pytorch_computes(case, served):
    inputs, options = NOT_COVERED[case]
    results = []
    for f in (attend, F.scaled_dot_product_attention):
        torch.manual_seed(0)
        results.append(f(*inputs, **options))
    assert torch.equal(*results)
    assert served == []


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ((Q, K[..., :8], V), {}),
        ((Q, K, V.double()), {}),
        ((Q, *LONG), {}),
        ((Q, K[:, :3], V[:, :3]), {"enable_gqa": True}),
        ((Q, K, V), {"attn_mask": KEPT[:5]}),
        ((Q, K, V), {"attn_mask": KEPT.long()}),
        ((Q, K, V), {"attn_mask": KEPT[0]}),
        ((Q, K, V), {"dropout_p": 1.5}),
        ((Q, K, V, None, 0.0, False, 0.5), {}),
        ((Q, K, [1.0]), {}),
    ],
)
def test_wrong_input_raises_the_type_of_error_that_pytorch_raises(inputs, options):
    with pytest.raises(Exception) as theirs:
        F.scaled_dot_product_attention(*inputs, **options)
    with pytest.raises(theirs.type):
        attend(*inputs, **options)


def test_the_arguments_are_those_that_pytorch_documents():
    ours = ", ".join(
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default}"
        for p in inspect.signature(attend).parameters.values()
    )
    documented = " ".join(F.scaled_dot_product_attention.__doc__.split())
    assert documented.startswith(f"{NAME}({ours}) -> Tensor")


def test_autocast_gives_the_dtypes_that_it_gives_pytorchs_function(served):
    for dtype, mask in itertools.product((torch.float32, torch.bfloat16), (None, values(7, 7))):
        inputs = [x.to(dtype) for x in (Q, K, V)]
        with torch.autocast("cpu", torch.bfloat16):
            ours, theirs = (
                outcome(inputs, lambda *x, f=f, mask=mask: f(*x, attn_mask=mask))
                for f in (attend, F.scaled_dot_product_attention)
            )
        assert [x.dtype for x in (*ours[0], *ours[1])] == [x.dtype for x in (*theirs[0], *theirs[1])]
    assert len(served) == 1  # in bfloat16 without a mask of float32


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations_have_the_same_gradients(reentrant):
    inputs, upstream = [x.clone().requires_grad_() for x in (Q, K, V)], values(2, 4, 7, 16, seed=5)
    y = checkpoint(lambda *x: attend(*x, is_causal=True), *inputs, use_reentrant=reentrant)
    y.backward(upstream)
    _, expected = outcome((Q, K, V), lambda *x: attend(*x, is_causal=True))
    torch.testing.assert_close([x.grad for x in inputs], list(expected), rtol=0, atol=0)


def test_it_compiles_as_one_operator_whatever_the_lengths():
    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.reset()
    graphs = []

    def compiler(graph, inputs):
        graphs.append([node.target._opname for node in graph.graph.nodes if "kernellab" in str(node.target)])
        return graph.forward

    def call(q, k, v, mask):
        return attend(q, k, v, mask, scale=0.25, enable_gqa=True)

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for queries, keys in ((5, 7), (6, 9), (8, 11)):
        inputs = heads(queries), heads(keys, 2, seed=1), heads(keys, 2, seed=2), values(queries, keys)
        torch.testing.assert_close(outcome(inputs, compiled), outcome(inputs, call))
    assert graphs == [["attention"], ["attention_backward"]] * 2  # of the first lengths, and of all others


def test_the_shipped_table_leaves_small_calls_in_float32_to_pytorch(served):
    with own_table(""):
        attend(Q, K, V, is_causal=True)
        assert served == []
        attend(*[heads(128, 8, columns=64, seed=seed) for seed in range(3)], is_causal=True)
        assert len(served) == 1
