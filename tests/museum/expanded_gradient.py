"""The backward kernel gets the gradient's row stride and assumes that its column stride is 1.

`y.sum().backward()` passes one number expanded over the whole shape, strides 0 and 0. The kernel reads the
memory behind that number instead. With a gradient of randn, which tests pass, the result is right.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "gradients"
SOURCE = "https://github.com/ROCm/TransformerEngine/pull/623"
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("... N")), cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def square(x):
    """x²."""
    return x * x


@square.impl("torch")
def _(x):
    return torch.square(x)


@triton.jit
def backward_kernel(x_ptr, dy_ptr, dx_ptr, cols, dy_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + col, mask=col < cols, other=0.0)
        dy = tl.load(dy_ptr + row * dy_row + col, mask=col < cols, other=0.0)
        if x_ptr.dtype.element_ty != tl.float64:
            x = x.to(tl.float32)
            dy = dy.to(tl.float32)
        tl.store(dx_ptr + row * cols + col, (2.0 * x * dy).to(dx_ptr.dtype.element_ty), mask=col < cols)


class SquareBackward(torch.autograd.Function):
    """2·x·dy by the kernel; differentiable again in plain PyTorch."""

    @staticmethod
    def forward(ctx, x, dy, any_strides):
        ctx.save_for_backward(x, dy)
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
            dy = (dy.contiguous() if any_strides else dy).reshape(rows, cols)
            backward_kernel[(rows,)](x.contiguous(), dy, dx, cols, dy.stride(0), 1024)
        return dx

    @staticmethod
    def backward(ctx, g):
        x, dy = ctx.saved_tensors
        return 2 * dy * g, 2 * x * g, None


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, any_strides):
        ctx.save_for_backward(x)
        ctx.any_strides = any_strides
        return x * x

    @staticmethod
    def backward(ctx, dy):
        return SquareBackward.apply(*ctx.saved_tensors, dy, ctx.any_strides), None


@square.impl("triton-right")
def _(x):
    return Square.apply(x, True)


@square.impl("triton-wrong")
def _(x):
    return Square.apply(x, False)
