"""The derivative saved by the forward pass is multiplied by the gradient in place: the second backward uses it changed.

This saves memory and is right for one backward per forward. With `retain_graph=True` (two losses, a gradient
penalty) the second result carries the first gradient too. A Triton store does not bump the version counter, so
autograd, which refuses the same thing from PyTorch's own ops, notices nothing.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "gradients"
SOURCE = "https://github.com/triton-lang/triton/issues/4004"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def absolute(x):
    """|x|."""
    return torch.abs(x)


@triton.jit
def multiply_kernel(slope_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    slope = tl.load(slope_ptr + at, mask=at < n, other=0.0)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0)
    if slope_ptr.dtype.element_ty != tl.float64:
        slope = slope.to(tl.float32)
        dy = dy.to(tl.float32)
    tl.store(dx_ptr + at, (slope * dy).to(dx_ptr.dtype.element_ty), mask=at < n)


class AbsoluteBackward(torch.autograd.Function):
    """slope·dy by the kernel; differentiable again in plain PyTorch."""

    @staticmethod
    def forward(ctx, dy, slope, in_place):
        ctx.slope = slope
        dx = slope.detach() if in_place else torch.empty_like(slope)
        if dx.numel():
            multiply_kernel[(triton.cdiv(dx.numel(), 1024),)](slope, dy.contiguous(), dx, dx.numel(), 1024)
        return dx

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope, None, None


class Absolute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, in_place):
        ctx.slope = torch.sign(x).contiguous()
        ctx.in_place = in_place
        return torch.abs(x)

    @staticmethod
    def backward(ctx, dy):
        return AbsoluteBackward.apply(dy, ctx.slope, ctx.in_place), None


@absolute.impl("triton-right")
def _(x):
    return Absolute.apply(x, False)


@absolute.impl("triton-wrong")
def _(x):
    return Absolute.apply(x, True)
