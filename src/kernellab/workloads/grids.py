"""Squares a tensor with a grid of any size, to show what grid and block do to the GPU's counters.

Not an implementation of the op `square`: the work stays the same however few threads share it.
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
    """y = x·x: x and y are [n], stride 1. A program takes `width` elements, then those one whole grid further on."""
    first, step = tl.program_id(0).to(tl.int64) * width, tl.num_programs(0).to(tl.int64) * width
    for start in range(first, n, step):
        at = start + tl.arange(0, width)
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, (x * x).to(y_ptr.dtype.element_ty), mask=inside)
