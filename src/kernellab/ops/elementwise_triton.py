"""y = f(x) in Triton: how elements are moved. The op's jitted function `f` says what is computed.

`f` takes and returns an fp32 block; loads widen, stores round to y's type.
"""

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.layout import elementwise

# One 16-byte access per thread and 4 warps: on an H200 (2026-11-15) 4286 GB/s for fp32 GeLU, where 64
# bytes per thread gave 4067. Enough small programs are resident to keep the memory busy by themselves.
WARPS = 4
FLAT_BYTES = WARPS * 32 * 16
# A strided tile needs address arithmetic, so a thread takes four accesses of it.
TILE_BYTES = WARPS * 32 * 64

# (columns up to, columns per tile): short rows share a program, so that no lane idles.
TILE_COLS = ((32, 32), (256, 256), (None, 1024))


def map_triton(x: torch.Tensor, f: triton.JITFunction, op: str) -> torch.Tensor:
    """f of every element, with the strides that PyTorch would give the result."""
    require_float(x, op)
    x, y, size = elementwise(x)
    if size.rows * size.cols == 0:
        return y
    with same_device(x):
        if size.flat:
            block = FLAT_BYTES // x.element_size()
            map_flat[(triton.cdiv(size.cols, block),)](x, y, size.cols, f, block, num_warps=WARPS)
        else:
            tile_cols = next(tile for limit, tile in TILE_COLS if limit is None or size.cols <= limit)
            tile_rows = TILE_BYTES // x.element_size() // tile_cols
            vec = 1
            if size.x_col == size.y_col == 1:
                vec = vector_width(x, y, size.cols, size.x_row, size.y_row)
            grid = (triton.cdiv(size.rows, tile_rows) * triton.cdiv(size.cols, tile_cols),)
            map_rows[grid](
                x, y, size.rows, size.cols // vec, size.x_row // vec, size.x_col, size.y_row // vec, size.y_col,
                f, vec, tile_rows, tile_cols, num_warps=WARPS,
            )  # fmt: skip
    return y


@triton.jit
def map_flat(x_ptr, y_ptr, n, f: tl.constexpr, BLOCK: tl.constexpr):
    """y = f(x) over contiguous memory: x and y are [n], stride 1. One program per BLOCK elements."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    x_ptr += start
    y_ptr += start
    at = tl.arange(0, BLOCK)
    if start + BLOCK <= n:  # no mask, so that accesses are 16 bytes wide whatever n is
        y = f(tl.load(x_ptr + at).to(tl.float32))
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty))
    else:
        inside = at < n - start
        y = f(tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32))
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def map_rows(
    x_ptr, y_ptr, rows, cols, x_row, x_col, y_row, y_col,
    f: tl.constexpr, VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
):  # fmt: skip
    """y = f(x): x is [rows, cols·VEC] with strides (x_row·VEC, x_col), y likewise. One program per tile.

    `cols` and the row strides are passed divided by VEC: multiplying back (in 64 bits) tells the compiler
    what divides them, and so how wide an access may be. VEC is 1 if they have no such factor.
    """
    n = (tl.zeros([], tl.int64) + cols) * VEC
    tiles_across = tl.cdiv(n, TILE_COLS)
    tile = tl.program_id(0)
    row = tile // tiles_across * TILE_ROWS + tl.arange(0, TILE_ROWS)[:, None]
    col = tile % tiles_across * TILE_COLS + tl.arange(0, TILE_COLS)[None, :]
    inside = (row < rows) & (col < n)
    x = tl.load(x_ptr + row * x_row * VEC + col * x_col, mask=inside, other=0.0)
    y = f(x.to(tl.float32)).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * y_row * VEC + col * y_col, y, mask=inside)
