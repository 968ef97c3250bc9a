"""Dropout with addition in models: its mask is drawn from PyTorch's generator, and drawn again for the gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import kernellab as kl
from kernellab.ops.philox import Stream
from support.functional_calls import LAYOUTS, values
from support.serving import OPERATORS

dropout_add = kl.functional.dropout_add
X, RESIDUAL = values(64, 256).abs() + 1, values(64, 256, seed=1)


@pytest.fixture
def served(monkeypatch):
    called = []
    operator = OPERATORS["dropout_add"]
    monkeypatch.setattr(operator, "call", lambda *args, c=operator.call: (called.append(args[2:]), c(*args))[1])
    return called


def mask_of(y, p):
    """Which elements were kept. The others are the residual itself, and all of X is far from 0."""
    kept = y != RESIDUAL
    torch.testing.assert_close(y, torch.where(kept, X / (1 - p), 0) + RESIDUAL)
    return kept


def test_elements_are_dropped_with_the_probability_and_the_others_scaled(served):
    kept = mask_of(dropout_add(X, RESIDUAL, 0.25), 0.25)
    assert len(served) == 1
    deviation = (0.25 * 0.75 / kept.numel()) ** 0.5
    assert abs(kept.float().mean() - 0.75) < 6 * deviation


def test_the_seed_of_pytorch_decides_and_every_call_draws_anew():
    torch.manual_seed(3)
    first, second = dropout_add(X, RESIDUAL), dropout_add(X, RESIDUAL)
    torch.manual_seed(3)
    assert torch.equal(dropout_add(X, RESIDUAL), first)
    agreement = (mask_of(first, 0.5) == mask_of(second, 0.5)).float().mean()
    assert abs(agreement - 0.5) < 6 * (0.25 / X.numel()) ** 0.5


def test_the_gradient_has_the_mask_of_the_result_and_the_residual_gets_the_upstream_gradient():
    x, residual = X.clone().requires_grad_(), RESIDUAL.clone().requires_grad_()
    y = dropout_add(x, residual, 0.25)
    upstream = values(64, 256, seed=2)
    gradient, of_residual = torch.autograd.grad(y, (x, residual), upstream)
    torch.testing.assert_close(gradient, torch.where(mask_of(y.detach(), 0.25), upstream / 0.75, 0))
    assert torch.equal(of_residual, upstream)


def test_a_residual_alone_needs_no_backward_kernel(monkeypatch):
    def refuse(x, options):
        raise AssertionError("the backward pass ran")

    monkeypatch.setattr(OPERATORS["dropout_add"].choice, "backward", refuse)
    residual = RESIDUAL.clone().requires_grad_()
    dropout_add(X, residual).sum().backward()
    assert torch.equal(residual.grad, torch.ones_like(residual))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations_have_the_same_mask(reentrant):
    x = X.clone().requires_grad_()
    y = checkpoint(lambda x: dropout_add(x, RESIDUAL), x, use_reentrant=reentrant)
    y.sum().backward()
    assert torch.equal(x.grad, 2.0 * mask_of(y.detach(), 0.5))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_have_the_strides_of_pytorchs_operators(layout, served):
    x, residual = LAYOUTS[layout](values(6, 16)), LAYOUTS[layout](values(6, 16, seed=1))
    y = dropout_add(x, residual, 0.5)
    assert y.shape == x.shape
    if layout == "contiguous":
        assert y.stride() == x.stride()
    assert len(served) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"training": False},
        {"p": 0.0},
        {"residual": values(1, 256)},
        {"residual": RESIDUAL.double()},
    ],
    ids=str,
)
def test_what_the_kernels_do_not_cover_pytorch_computes(arguments, served):
    arguments = {"input": X, "residual": RESIDUAL, **arguments}
    torch.manual_seed(0)
    y = dropout_add(**arguments)
    torch.manual_seed(0)
    residual = arguments.pop("residual")
    assert torch.equal(y, F.dropout(**arguments) + residual)
    assert served == []


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_a_probability_that_is_none_raises_pytorchs_error(p):
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        dropout_add(X, RESIDUAL, p)


def test_everything_is_dropped_at_one(served):
    assert torch.equal(dropout_add(X, RESIDUAL, 1), RESIDUAL)
    assert len(served) == 1


def test_compiled_code_has_pytorchs_operators(served):
    torch._dynamo.reset()
    torch.compile(dropout_add, fullgraph=True, backend="eager")(X, RESIDUAL)
    assert served == []


def test_many_calls_read_the_table_once(monkeypatch):
    from kernellab.library import choice

    operator = OPERATORS["dropout_add"]
    operator.choice.read_tables()
    read = []
    rules = choice.tables.rules
    monkeypatch.setattr(choice.tables, "rules", lambda *args: (read.append(args), rules(*args))[1])
    for _ in range(5):
        dropout_add(X, RESIDUAL)
    assert len(read) == 1


def test_the_mask_is_that_of_the_op():
    """The words of the stream that the function drew give the mask."""
    torch.manual_seed(5)
    seed = int(torch.empty((), dtype=torch.int64).random_(-(1 << 63), None))
    torch.manual_seed(5)
    kept = mask_of(dropout_add(X, RESIDUAL), 0.5)
    assert torch.equal(kept, Stream(seed, 0).words(X.shape, X.device) < 1 << 31)
