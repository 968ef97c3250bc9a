"""A running maximum of −inf is subtracted from −inf: NaN for a row that is masked out entirely.

Subtracting the maximum makes log Σ exp safe for large inputs. A row of nothing but −inf (every position masked)
has −inf for its maximum, and −inf − −inf is NaN where the answer is −inf. The same difference turns +inf into NaN.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "values"
SOURCE = "https://github.com/microsoft/onnxruntime/issues/28461"
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def logsumexp(x):
    """log Σ exp(x) along the last dim."""
    return torch.logsumexp(x, dim=-1)


@triton.jit
def logsumexp_kernel(x_ptr, y_ptr, cols, GUARDED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(x, axis=0))
        base = shift(higher, GUARDED)
        total = total * tl.exp(peak - base) + tl.sum(tl.exp(x - base), axis=0)
        peak = higher
    y = shift(peak, GUARDED) + tl.log(total)
    tl.store(y_ptr + row, y.to(y_ptr.dtype.element_ty))


@triton.jit
def shift(peak, GUARDED: tl.constexpr):
    """The value to subtract: zero instead of an infinite maximum."""
    if GUARDED:
        peak = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)
    return peak


def launch(x, guarded):
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    y = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    if rows:
        logsumexp_kernel[(rows,)](x.contiguous(), y, cols, guarded, 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@logsumexp.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, guarded=True)


@logsumexp.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, guarded=False)
