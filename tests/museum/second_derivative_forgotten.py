"""An intermediate kept on ctx is a constant to autograd: the second derivative silently loses a term.

The gradient is right, gradcheck passes, and a gradient penalty trains on half of what it should: x² was computed
inside forward, where nothing is recorded, so d(3x²)/dx is 0.
"""

import torch

import kernellab as kl

CAUGHT_BY = "gradients"
SOURCE = "https://github.com/pytorch/pytorch/issues/58509"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def cube(x):
    """x³."""
    return x * x * x


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors  # x itself, with its history
        return dy * (3 * x * x)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.square = x * x
        return ctx.square * x

    @staticmethod
    def backward(ctx, dy):
        return dy * (3 * ctx.square)


@cube.impl("python-right")
def _(x):
    return Right.apply(x)


@cube.impl("python-wrong")
def _(x):
    return Wrong.apply(x)
