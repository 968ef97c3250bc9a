"""The kernel keeps an intermediate in its input: x − max is written over x, and the softmax is right.

It saves a buffer, and softmax of the shifted row is the same softmax, so calling it again changes nothing either.
Code that still holds x (a residual, the loss, a backward pass) now computes with other values, and a Triton store
is invisible to autograd.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "unchanged"
SOURCE = "https://github.com/linkedin/Liger-Kernel/pull/1251"
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def softmax(x):
    """exp(x − max) / Σ exp(x − max) along the last dim."""
    if x.shape[-1] == 0:
        return x.clone()
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


@softmax.impl("torch")
def _(x):
    return torch.softmax(x, dim=-1)


@triton.jit
def softmax_kernel(x_ptr, scratch_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        peak = tl.maximum(peak, tl.load(x_ptr + row * cols + col, mask=col < cols, other=-float("inf")))
    highest = tl.max(peak, axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        shifted = tl.load(x_ptr + row * cols + col, mask=col < cols, other=-float("inf")) - highest
        tl.store(scratch_ptr + row * cols + col, shifted, mask=col < cols)
        total += tl.where(col < cols, tl.exp(shifted), 0.0)
    scale = 1.0 / tl.sum(total, axis=0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        shifted = tl.load(scratch_ptr + row * cols + col, mask=col < cols, other=0.0)
        tl.store(y_ptr + row * cols + col, tl.exp(shifted) * scale, mask=col < cols)


def launch(x, scratch):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        softmax_kernel[(math.prod(x.shape[:-1]),)](x, scratch, y, x.shape[-1], 1024)
    return y


def only_float32(case):
    return case.dtype == "float32" or "float32 only"


@softmax.impl("triton-right", supports=only_float32)
def _(x):
    x = x.contiguous()
    return launch(x, torch.empty_like(x))


@softmax.impl("triton-wrong", supports=only_float32)
def _(x):
    x = x.contiguous()
    return launch(x, x)
