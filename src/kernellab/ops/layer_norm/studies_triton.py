"""Layer norm in Triton with one program per row, as tutorials write it: the compiler makes the accesses wide, keeps the
row in registers and reduces across threads. It does not protect from cancellation.
"""

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float

PER_WARP = 1024  # columns


def layer_norm_rows(x: torch.Tensor, eps: float, *, by_squares: bool = False) -> torch.Tensor:
    require_float(x, "layer_norm")
    y = torch.empty_like(x)
    if x.numel():
        cols = x.shape[-1]
        block = triton.next_power_of_2(cols)
        warps = min(32, max(1, block // PER_WARP))
        with same_device(x):
            layer_norm_row[(x.numel() // cols,)](x, y, cols, eps, by_squares, block, num_warps=warps)
    return y


@triton.jit
def layer_norm_row(x_ptr, y_ptr, cols, eps, BY_SQUARES: tl.constexpr, BLOCK: tl.constexpr):
    """One row of x and y, which are [rows, cols] and contiguous."""
    start = tl.program_id(0).to(tl.int64) * cols
    col = tl.arange(0, BLOCK)
    inside = col < cols
    x = tl.load(x_ptr + start + col, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / cols
    if BY_SQUARES:  # wrong on purpose: E[x²] − E[x]² cancels where the mean is large beside the deviation
        variance = tl.sum(x * x, axis=0) / cols - mean * mean
    else:
        distance = tl.where(inside, x - mean, 0.0)
        variance = tl.sum(distance * distance, axis=0) / cols
    y = (x - mean) * (1.0 / tl.sqrt(variance + eps))
    tl.store(y_ptr + start + col, y.to(y_ptr.dtype.element_ty), mask=inside)
