"""Elementwise ops in Triton: how elements are moved. The op's jitted function `f` says what is computed.

`f` takes one to three fp32 blocks and returns one, or a pair; loads widen, stores round to the outputs' type.
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

MOST_INPUTS, MOST_OUTPUTS = 3, 2


def map_triton(op: str, f: triton.JITFunction, *inputs: torch.Tensor, outputs: int = 1) -> list[torch.Tensor]:
    """f of every element. The outputs have the strides that PyTorch gives them."""
    require_float(inputs[0], op)
    tensors, grid = elementwise(*inputs, outputs=outputs)
    given, results = tensors[: len(inputs)], tensors[len(inputs) :]
    if grid.rows * grid.cols == 0:
        return results
    # A kernel has a place for every tensor that an op may have; None is a constant to the compiler.
    places = [*_pad(given, MOST_INPUTS), *_pad(results, MOST_OUTPUTS)]
    with same_device(results[0]):
        if grid.flat:
            block = FLAT_BYTES // results[0].element_size()
            map_flat[(triton.cdiv(grid.cols, block),)](*places, grid.cols, f, block, num_warps=WARPS)
            return results
        tile_cols = next(tile for limit, tile in TILE_COLS if limit is None or grid.cols <= limit)
        tile_rows = max(1, TILE_BYTES // results[0].element_size() // tile_cols // max(1, len(inputs) - 1))
        row_strides = [row for row, _ in grid.strides]
        vec = vector_width(tensors, grid.cols, *row_strides) if grid.unit_columns else 1
        strides = [(row // vec, col) for row, col in grid.strides]
        in_strides = _pad(strides[: len(inputs)], MOST_INPUTS, (0, 0))
        out_strides = _pad(strides[len(inputs) :], MOST_OUTPUTS, (0, 0))
        flat_strides = [stride for pair in (*in_strides, *out_strides) for stride in pair]
        tiles = triton.cdiv(grid.rows, tile_rows) * triton.cdiv(grid.cols, tile_cols)
        map_rows[(tiles,)](
            *places, grid.rows, grid.cols // vec, *flat_strides, f, vec, tile_rows, tile_cols, num_warps=WARPS
        )
    return results


def _pad(values: list, count: int, filling: object = None) -> list:
    return [*values, *[filling] * (count - len(values))]


@triton.jit
def map_flat(a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, n, f: tl.constexpr, BLOCK: tl.constexpr):
    """y, z = f(a, b, c) over contiguous memory: all are [n], stride 1. One program per BLOCK elements."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = tl.arange(0, BLOCK)
    a, b, c = shift(a_ptr, start, at), shift(b_ptr, start, at), shift(c_ptr, start, at)
    y, z = shift(y_ptr, start, at), shift(z_ptr, start, at)
    if start + BLOCK <= n:  # no mask, so that accesses are 16 bytes wide whatever n is
        map_block(f, a, b, c, y, z, None)
    else:
        map_block(f, a, b, c, y, z, at < n - start)


@triton.jit
def map_rows(
    a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, rows, cols,
    a_row, a_col, b_row, b_col, c_row, c_col, y_row, y_col, z_row, z_col,
    f: tl.constexpr, VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
):  # fmt: skip
    """y, z = f(a, b, c): a is [rows, cols·VEC] with strides (a_row·VEC, a_col), the others likewise. One program per
    tile.

    `cols` and the row strides are passed divided by VEC: multiplying back (in 64 bits) tells the compiler
    what divides them, and so how wide an access may be. VEC is 1 if they have no such factor.
    """
    n = (tl.zeros([], tl.int64) + cols) * VEC
    tiles_across = tl.cdiv(n, TILE_COLS)
    tile = tl.program_id(0)
    row = tile // tiles_across * TILE_ROWS + tl.arange(0, TILE_ROWS)[:, None]
    col = tile % tiles_across * TILE_COLS + tl.arange(0, TILE_COLS)[None, :]
    map_block(
        f,
        shift(a_ptr, row * a_row * VEC, col * a_col),
        shift(b_ptr, row * b_row * VEC, col * b_col),
        shift(c_ptr, row * c_row * VEC, col * c_col),
        shift(y_ptr, row * y_row * VEC, col * y_col),
        shift(z_ptr, row * z_row * VEC, col * z_col),
        (row < rows) & (col < n),
    )


@triton.jit
def shift(ptr, first, second):
    """Pointers to elements; None where the op has no such tensor."""
    return None if ptr is None else ptr + first + second


@triton.jit
def map_block(f: tl.constexpr, a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, inside):
    """y, z = f(a, b, c) for a block of pointers. Elements outside the tensors are undefined, and not stored."""
    a = tl.load(a_ptr, mask=inside).to(tl.float32)
    if b_ptr is None:
        result = f(a)
    elif c_ptr is None:
        result = f(a, tl.load(b_ptr, mask=inside).to(tl.float32))
    else:
        result = f(a, tl.load(b_ptr, mask=inside).to(tl.float32), tl.load(c_ptr, mask=inside).to(tl.float32))
    if z_ptr is None:
        tl.store(y_ptr, result.to(y_ptr.dtype.element_ty), mask=inside)
    else:
        y, z = result
        tl.store(y_ptr, y.to(y_ptr.dtype.element_ty), mask=inside)
        tl.store(z_ptr, z.to(z_ptr.dtype.element_ty), mask=inside)
