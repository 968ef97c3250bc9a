"""One block of at most 4096 columns and no loop: further columns of a wider row are ignored.

The block size is capped because registers are finite, and the loop over the rest of the row was never written.
Nothing fails: the mask never reaches the remaining columns.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "sizes"
SOURCE = "https://github.com/facebookresearch/xformers/issues/785"
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def absmean(x):
    """The mean of |x| along the last dim."""
    return x.abs().mean(dim=-1)


@triton.jit
def absmean_kernel(x_ptr, y_ptr, cols, LOOP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * cols
    total = tl.zeros([BLOCK], tl.float32)
    if LOOP:
        for start in range(0, cols, BLOCK):
            col = start + tl.arange(0, BLOCK)
            total += tl.abs(tl.load(x_ptr + col, mask=col < cols, other=0.0).to(tl.float32))
    else:
        col = tl.arange(0, BLOCK)
        total += tl.abs(tl.load(x_ptr + col, mask=col < cols, other=0.0).to(tl.float32))
    tl.store(y_ptr + row, (tl.sum(total, axis=0) / cols).to(y_ptr.dtype.element_ty))


def launch(x, loop):
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    y = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    if rows:
        block = min(4096, triton.next_power_of_2(max(1, cols)))
        absmean_kernel[(rows,)](x.contiguous(), y, cols, loop, block)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@absmean.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, loop=True)


@absmean.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, loop=False)
