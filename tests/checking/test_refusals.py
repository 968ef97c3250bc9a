"""Refusing gradients and making a mistake in them are different things."""

import pytest
import torch

from kernellab.checking.refusals import refuses_gradients
from support.trying import examine, op_of, plane

softplus = torch.nn.functional.softplus


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return softplus(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * torch.sigmoid(ctx.saved_tensors[0])


class Second(torch.autograd.Function):
    """σ(x)·g, with a mistake in its own backward."""

    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(x)
        return torch.sigmoid(x) * g

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0].flatten()[:3] @ g, None


class First(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return softplus(x)

    @staticmethod
    def backward(ctx, g):
        return Second.apply(ctx.saved_tensors[0], g)


def test_double_backward_may_be_refused_and_a_mistake_in_it_is_an_error():
    op = op_of(lambda x: softplus(x), once=Once.apply, mistaken=First.apply)
    refused = examine(op, "once", plane(), pass_name="double backward")
    assert (refused.status, "once_differentiable" in refused.reason) == ("outside", True)
    mistaken = examine(op, "mistaken", plane(), pass_name="double backward")
    assert (mistaken.status, "RuntimeError" in mistaken.reason) == ("error", True)


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (NotImplementedError("forward only"), True),
        (RuntimeError("derivative for aten::x is not implemented"), True),
        (RuntimeError("Trying to backward through a.b.default but no autograd formula was registered."), True),
        (RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn"), True),
        (RuntimeError("size mismatch, got input (127), mat (127x127), vec (3)"), False),
        (RuntimeError("Function FBackward returned an invalid gradient at index 0 - got [3] but expected [4]"), False),
        (ValueError("derivative"), False),
    ],
)
def test_refusals_are_distinguished_from_mistakes(error, refusal):
    assert refuses_gradients(error) is refusal
