"""The path for inputs that require gradients returns another result than the path for those that do not.

The saved activation is returned in place of the result. Its gradient is right, and inference is right; the loss of a
training run is computed from a wrong number.
"""

import torch

import kernellab as kl

CAUGHT_BY = "gradients"
SOURCE = None
NEEDS_GPU = False


@kl.op(options=dict(shift=[0.0, 1.0]), cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def shifted_exp(x, *, shift=0.0):
    """eˣ minus a shift."""
    return torch.exp(x) - shift


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shift, kept):
        y = torch.exp(x)
        ctx.save_for_backward(y)
        return y.clone() if kept else y - shift

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return dy * y, None, None


@shifted_exp.impl("python-right")
def _(x, *, shift=0.0):
    return Exp.apply(x, shift, False) if x.requires_grad else torch.exp(x) - shift


@shifted_exp.impl("python-wrong")
def _(x, *, shift=0.0):
    return Exp.apply(x, shift, True) if x.requires_grad else torch.exp(x) - shift
