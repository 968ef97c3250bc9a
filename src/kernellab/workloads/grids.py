"""Squares a tensor with a grid of any size, to show how grid and block affect the GPU's counters.

It is not an implementation of the op `square`: the total work is the same for any number of threads.
"""

import torch
import triton
import triton.language as tl

ELEMENTS_PER_THREAD = 4  # at a time


def square_by_grid(x: torch.Tensor, blocks: int, threads: int) -> torch.Tensor:
    """x·x of a contiguous tensor, computed by `blocks` blocks of `threads` threads (a power of two, at least 32)."""
    y = torch.empty_like(x)
    if x.numel():
        with torch.cuda.device_of(x):
            square_strided[(blocks,)](x, y, x.numel(), ELEMENTS_PER_THREAD * threads, num_warps=threads // 32)
    return y


@triton.jit
def square_strided(x_ptr, y_ptr, n, width: tl.constexpr):
    """y = x·x: x and y are [n], stride 1. A program takes `width` elements, then those one grid stride further."""
    first, step = tl.program_id(0).to(tl.int64) * width, tl.num_programs(0).to(tl.int64) * width
    for start in range(first, n, step):
        offsets = start + tl.arange(0, width)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, (x * x).to(y_ptr.dtype.element_ty), mask=mask)
