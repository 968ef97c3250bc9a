"""The derivative kept by the forward pass is multiplied by the gradient in place: the second backward finds it spoilt.

Saving memory this way is fine for one backward per forward. With `retain_graph=True` (two losses, a gradient
penalty) the second result carries the first gradient too. A Triton store does not bump the version counter, so
autograd, which refuses the same thing from PyTorch's own ops, notices nothing.
"""

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

import kernellab as kl

CAUGHT_BY = "gradients"
SOURCE = "https://github.com/triton-lang/triton/issues/4004"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def cube(x):
    """x³."""
    return x * x * x


@triton.jit
def multiply_kernel(slope_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    slope = tl.load(slope_ptr + at, mask=at < n, other=0.0)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0)
    if slope_ptr.dtype.element_ty != tl.float64:
        slope = slope.to(tl.float32)
        dy = dy.to(tl.float32)
    tl.store(dx_ptr + at, (slope * dy).to(dx_ptr.dtype.element_ty), mask=at < n)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, in_place):
        wide = x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()
        ctx.slope = 3 * wide * wide  # in float32 at least: rounded once, when the gradient is
        ctx.dtype, ctx.in_place = x.dtype, in_place
        return (wide * wide * wide).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        dy = dy.contiguous()
        dx = ctx.slope if ctx.in_place else torch.empty_like(ctx.slope)
        if dx.numel():
            multiply_kernel[(triton.cdiv(dx.numel(), 1024),)](ctx.slope, dy, dx, dx.numel(), 1024)
        return dx.to(ctx.dtype), None


@cube.impl("triton-right")
def _(x):
    return Cube.apply(x, False)


@cube.impl("triton-wrong")
def _(x):
    return Cube.apply(x, True)
