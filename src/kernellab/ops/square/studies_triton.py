"""Square in Triton with one program per row: the kernels of studies.py, and their launches.

`whole_row` takes a row as one block, rounded up to a power of two; `row_in_pieces` takes 1024 columns at a time.
The implementation to use, triton.py, ignores rows if the memory is contiguous.
"""

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float
from kernellab.ops.layout import last_dim

PIECE = 1024
WARPS = ((4096, 16), (2048, 8), (0, 4))  # (block from, warps)


def square_whole_row(x: torch.Tensor, warps: int | None = None) -> torch.Tensor:
    """One block per row. If `warps` is None, longer rows get more warps, so that a thread's share stays small."""
    block = triton.next_power_of_2(max(1, x.size(-1) if x.dim() else 1))
    if warps is None:
        warps = next(count for least, count in WARPS if block >= least)
    return _launch(x, whole_row, block, warps)


def square_in_pieces(x: torch.Tensor) -> torch.Tensor:
    """One program per row, looping over pieces of 1024 columns: right for rows of any length."""
    return _launch(x, row_in_pieces, PIECE, 4)


def square_first_piece(x: torch.Tensor) -> torch.Tensor:
    """Wrong on purpose: a block of 1024 for every row, and no loop. Columns beyond are never written.

    Kept as an example. It is right up to 1024 columns; beyond them it is fast because it leaves columns out.
    """
    return _launch(x, whole_row, PIECE, 4)


def _launch(x: torch.Tensor, kernel: triton.JITFunction, block: int, warps: int) -> torch.Tensor:
    require_float(x, "square")
    (x, y), grid = last_dim(x)
    if grid.rows * grid.cols:
        (x_row, x_col), (y_row, _) = grid.strides
        with same_device(x):
            kernel[(grid.rows,)](x, y, grid.cols, x_row, x_col, y_row, block, num_warps=warps)
    return y


@triton.jit
def whole_row(x_ptr, y_ptr, cols, x_row, x_col, y_row, BLOCK: tl.constexpr):
    """y = x·x for the first BLOCK columns of one row: x is [rows, cols] with strides (x_row, x_col), y (y_row, 1)."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    inside = col < cols
    x = tl.load(x_ptr + row * x_row + col * x_col, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_row + col, (x * x).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def row_in_pieces(x_ptr, y_ptr, cols, x_row, x_col, y_row, BLOCK: tl.constexpr):
    """y = x·x for one row, BLOCK columns at a time: x is [rows, cols] with strides (x_row, x_col), y (y_row, 1)."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        inside = col < cols
        x = tl.load(x_ptr + row * x_row + col * x_col, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * y_row + col, (x * x).to(y_ptr.dtype.element_ty), mask=inside)
