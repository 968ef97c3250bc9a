"""The mask keeps lanes inside the tensor, not inside the row: padding lanes read the next row's first columns.

Where the width is not a power of two, the spare lanes of one row lie inside the next, and `at < numel` lets them
through. Only the last row is right, and nothing is ever read out of bounds, so no sanitizer complains.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "sizes"
SOURCE = "https://github.com/flagos-ai/FlagGems/pull/4985"
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def l1_norm(x):
    """Σ |x| along the last dim."""
    return x.abs().sum(dim=-1)


@triton.jit
def l1_kernel(x_ptr, y_ptr, n, cols, BY_ROW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        at = row * cols + col
        inside = col < cols if BY_ROW else at < n
        total += tl.abs(tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32))
    tl.store(y_ptr + row, tl.sum(total, axis=0).to(y_ptr.dtype.element_ty))


def launch(x, by_row):
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    y = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    if rows:
        block = min(4096, triton.next_power_of_2(max(1, cols)))
        l1_kernel[(rows,)](x.contiguous(), y, x.numel(), cols, by_row, block)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@l1_norm.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, by_row=True)


@l1_norm.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, by_row=False)
