"""Lanes beyond the row, loaded as 0, become −mean and add mean² each to the variance.

A block must be a power of two, so a row of 17 is padded to 32. The zeros do no harm in the sum; after the mean is
subtracted they are not zeros any more. Every width that is a power of two is right, and so are most tests.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "sizes"
SOURCE = "https://github.com/triton-lang/triton/issues/9838"
NEEDS_GPU = False
EPS = 1e-5


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def rstd(x):
    """1 / √(variance + ε) along the last dim: what a LayerNorm keeps for its backward pass."""
    return torch.rsqrt(torch.var(x, dim=-1, correction=0) + EPS)


@triton.jit
def rstd_kernel(x_ptr, y_ptr, cols, eps, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * cols
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + col, mask=col < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        centred = tl.load(x_ptr + col, mask=col < cols, other=0.0).to(tl.float32) - mean
        if MASKED:
            centred = tl.where(col < cols, centred, 0.0)
        squares += centred * centred
    y = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(y_ptr + row, y.to(y_ptr.dtype.element_ty))


def launch(x, masked):
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    y = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    if rows:
        block = min(4096, triton.next_power_of_2(max(1, cols)))
        rstd_kernel[(rows,)](x.contiguous(), y, cols, EPS, masked, block)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@rstd.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, masked=True)


@rstd.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, masked=False)
