"""Elementwise ops in Triton: how elements are moved. The op's jitted function `f` says what is computed.

`f` takes one to three fp32 blocks and returns one, or a pair; loads widen, stores round to the outputs' type. Where
there is a stream, `f` takes one or two blocks, then the random words of their elements: a further input, which is
computed from the elements' indices and not read. Two parameters follow.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.layout import elementwise
from kernellab.ops.philox import Stream
from kernellab.ops.philox_triton import words_along, words_at

# One 16-byte access per thread and 4 warps: on an H200 (2026-11-15) 4286 GB/s for fp32 GeLU, where 64
# bytes per thread gave 4067. Enough small programs are resident to keep the memory busy by themselves.
WARPS = 4
FLAT_BYTES = WARPS * 32 * 16
# Random words: twice as much, because drawing them for two accesses hides the wait for one (0.95 and 1.00 of copy).
RANDOM_BYTES = 2 * FLAT_BYTES
# A strided tile needs address arithmetic, so a thread takes four accesses of it.
TILE_BYTES = WARPS * 32 * 64

# (columns up to, columns per tile): short rows share a program, so that no lane idles.
TILE_COLS = ((32, 32), (256, 256), (None, 1024))

MOST_INPUTS, MOST_OUTPUTS, MOST_PARAMETERS = 3, 2, 2


def map_triton(
    op: str,
    f: triton.JITFunction,
    *inputs: torch.Tensor,
    outputs: int = 1,
    stream: Stream | None = None,
    parameters: Sequence[int | float] = (),
) -> list[torch.Tensor]:
    """f of every element. The outputs have the strides that PyTorch gives them.

    `stream`: the random words of an `f` that takes them, and `parameters` for it; its results may need
    `layout.reorder`.
    """
    require_float(inputs[0], op)
    tensors, grid = elementwise(*inputs, outputs=outputs, indexed=stream is not None)
    given, results = tensors[: len(inputs)], tensors[len(inputs) :]
    if grid.rows * grid.cols == 0:
        return results
    # A kernel has a place for every tensor that an op may have; None is a constant to the compiler.
    places = [*_pad(given, MOST_INPUTS), *_pad(results, MOST_OUTPUTS)]
    constants = [*(stream.as_int64() if stream else (None, None)), *_pad(list(parameters), MOST_PARAMETERS)]
    with same_device(results[0]):
        if grid.flat:
            block = (RANDOM_BYTES if stream else FLAT_BYTES) // results[0].element_size()
            map_flat[(triton.cdiv(grid.cols, block),)](*places, grid.cols, *constants, f, block, num_warps=WARPS)
            return results
        tile_cols = next(tile for limit, tile in TILE_COLS if limit is None or grid.cols <= limit)
        tile_rows = max(1, TILE_BYTES // results[0].element_size() // tile_cols // max(1, len(inputs) - 1))
        vec = vector_width(tensors, grid.cols, *(row for row, _ in grid.strides)) if grid.unit_columns else 1
        strides = [(row // vec, col) for row, col in grid.strides]
        in_strides = _pad(strides[: len(inputs)], MOST_INPUTS, (0, 0))
        out_strides = _pad(strides[len(inputs) : len(tensors)], MOST_OUTPUTS, (0, 0))
        index_strides = strides[-1] if stream else (None, None)
        flat_strides = [stride for pair in (*in_strides, *out_strides, index_strides) for stride in pair]
        tiles = triton.cdiv(grid.rows, tile_rows) * triton.cdiv(grid.cols, tile_cols)
        map_rows[(tiles,)](
            *places, grid.rows, grid.cols // vec, *flat_strides, *constants, f, vec, tile_rows, tile_cols,
            num_warps=WARPS,
        )  # fmt: skip
    return results


def _pad(values: list, count: int, filling: object = None) -> list:
    return [*values, *[filling] * (count - len(values))]


# They change from call to call: no kernel is compiled for a value of one.
CONSTANTS = ("seed", "offset", "p", "q")


@triton.jit(do_not_specialize=CONSTANTS)
def map_flat(a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, n, seed, offset, p, q, f: tl.constexpr, BLOCK: tl.constexpr):
    """y, z = f(a, b, c) over contiguous memory: all are [n], stride 1. One program per BLOCK elements."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = tl.arange(0, BLOCK)
    a, y = a_ptr + start + at, y_ptr + start + at
    # Here and not in a function: up to Triton 3.6 a jitted function cannot return None.
    b = None if b_ptr is None else b_ptr + start + at
    c = None if c_ptr is None else c_ptr + start + at
    z = None if z_ptr is None else z_ptr + start + at
    access: tl.constexpr = 128 // y_ptr.dtype.element_ty.primitive_bitwidth
    words = None if seed is None else words_along(seed, offset, start, BLOCK, access, ALIGNED=True)
    if start + BLOCK <= n:  # no mask, so that accesses are 16 bytes wide whatever n is
        map_block(f, a, b, c, y, z, None, words, p, q)
    else:
        map_block(f, a, b, c, y, z, at < n - start, words, p, q)


@triton.jit(do_not_specialize=CONSTANTS)
def map_rows(
    a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, rows, cols,
    a_row, a_col, b_row, b_col, c_row, c_col, y_row, y_col, z_row, z_col, index_row, index_col,
    seed, offset, p, q,
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
    first_col = tile % tiles_across * TILE_COLS
    col = first_col + tl.arange(0, TILE_COLS)[None, :]
    if seed is None:
        words = None
    elif VEC > 1:  # neighbouring columns have neighbouring indices
        words = words_along(seed, offset, row * index_row * VEC + first_col, TILE_COLS, VEC)
    else:
        words = words_at(seed, offset, row * index_row + col * index_col)
    map_block(
        f,
        a_ptr + row * a_row * VEC + col * a_col,
        None if b_ptr is None else b_ptr + row * b_row * VEC + col * b_col,
        None if c_ptr is None else c_ptr + row * c_row * VEC + col * c_col,
        y_ptr + row * y_row * VEC + col * y_col,
        None if z_ptr is None else z_ptr + row * z_row * VEC + col * z_col,
        (row < rows) & (col < n),
        words,
        p,
        q,
    )


@triton.jit
def map_block(f: tl.constexpr, a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, inside, words, p, q):
    """y, z = f(a, b, c) for a block of pointers. Elements outside the tensors are undefined, and not stored."""
    a = tl.load(a_ptr, mask=inside).to(tl.float32)
    b = None if b_ptr is None else tl.load(b_ptr, mask=inside).to(tl.float32)
    if words is not None:
        result = f(a, words, p, q) if b is None else f(a, b, words, p, q)
    elif b is None:
        result = f(a)
    elif c_ptr is None:
        result = f(a, b)
    else:
        result = f(a, b, tl.load(c_ptr, mask=inside).to(tl.float32))
    if z_ptr is None:
        tl.store(y_ptr, result.to(y_ptr.dtype.element_ty), mask=inside)
    else:
        y, z = result
        tl.store(y_ptr, y.to(y_ptr.dtype.element_ty), mask=inside)
        tl.store(z_ptr, z.to(z_ptr.dtype.element_ty), mask=inside)
