"""Ops along the last dim in Triton: how rows are moved. Jitted functions of the op say what is computed.

Rows that fit in registers are read once; wider ones are read from L2 again.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.layout import Grid, last_dim

# (columns up to, elements per program, warps): a program is so wide that a thread holds 32 elements,
# which is 64 or 128 bytes in flight.
IN_REGISTERS = (
    (1024, 1024, 1),  # a warp's rows reduce by shuffles alone, and one-warp programs spread best over SMs
    (2048, 2048, 4),
    (4096, 4096, 4),
    (8192, 8192, 8),
    (16384, 16384, 16),
    (32768, 32768, 32),
)
# Wider rows, by bytes per element: (columns up to, chunk, warps). As many threads as one SM holds, so that
# the rows in progress (132 × 256 KB at 65,536 fp32) stay in L2 until they are read again. 16-bit rows are
# half as long, and smaller programs overlap the two passes of one row with those of another: on an H200
# (2026-11-15), softmax of bf16 ×32768 has 3726 GB/s in chunks of 8192 against 3163 in registers.
CHUNKS = {
    4: ((None, 32768, 32),),
    2: ((32768, 8192, 8), (65536, 16384, 16), (None, 32768, 32)),
}
REGISTERS_UP_TO = {4: 32768, 2: 16384}
# Elements of all inputs that a program holds at most: as fp32 they fill half of an SM's registers; more would spill.
MOST_ELEMENTS = 32768
CHUNK_NARROW, WARPS_NARROW = 8192, 32  # one-element accesses need an address each: a thread takes 8


class RowFunctions(NamedTuple):
    """What an op computes from the rows a and b; b is None where it has one input.

    `whole(a, b)`: the result of rows [rows, columns], each complete. The others compute it in pieces: `absorb(a, b,
    state, more)` updates two running numbers for each group of columns, `combine(state, more)` makes two numbers of the
    row from them, and `finish(a, b, first, second)` is the result. `filling` is the value beyond the end of a row, and
    the numbers begin with it and with 0.
    """

    whole: triton.JITFunction
    absorb: triton.JITFunction
    combine: triton.JITFunction
    finish: triton.JITFunction
    filling: float


def map_rows_triton(op: str, f: RowFunctions, *inputs: torch.Tensor) -> torch.Tensor:
    """A function of each row, contiguous."""
    require_float(inputs[0], op)
    tensors, grid = last_dim(*inputs)
    a, y = tensors[0], tensors[-1]
    b = tensors[1] if len(inputs) == 2 else None
    if grid.rows * grid.cols == 0:
        return y
    vec = vector_width(tensors, grid.cols, *(row for row, _ in grid.strides)) if grid.unit_columns else 1
    with same_device(y):
        _launch(f, a, b, y, grid, vec)
    return y


def _launch(f: RowFunctions, a: torch.Tensor, b: torch.Tensor | None, y: torch.Tensor, grid: Grid, vec: int) -> None:
    size, cols = y.element_size(), grid.cols
    (a_row, a_col), (b_row, b_col) = grid.strides[0], grid.strides[1] if b is not None else (0, 0)
    shape = (cols // vec, a_row // vec, a_col, b_row // vec, b_col)
    most_elements = MOST_ELEMENTS if b is None else MOST_ELEMENTS // 2
    for limit, elements, warps in IN_REGISTERS:
        if cols <= limit <= min(REGISTERS_UP_TO[size], most_elements):
            tile_cols = triton.next_power_of_2(cols)
            # Accesses of one element need an address each: fewer rows, or the addresses spill.
            tile_rows = max(1, elements // tile_cols // (1 if vec > 1 else 4))
            programs = triton.cdiv(grid.rows, tile_rows)
            rows_in_registers[(programs,)](
                a, b, y, grid.rows, *shape, f.whole, f.filling, vec, tile_rows, tile_cols, num_warps=warps
            )
            return
    width, chunk, warps = 4, CHUNK_NARROW, WARPS_NARROW
    if vec > 1:
        width, (chunk, warps) = vec, next((c, w) for limit, c, w in CHUNKS[size] if limit is None or cols <= limit)
        chunk = min(chunk, most_elements)
    rows_in_chunks[(grid.rows,)](
        a, b, y, *shape, f.absorb, f.combine, f.finish, f.filling, vec, width, chunk, num_warps=warps
    )


@triton.jit
def load(ptr, row, col, inside, filling: tl.constexpr, policy: tl.constexpr):
    """Elements as fp32, or None where there is no such input."""
    if ptr is None:
        values = None
    elif inside is None:
        values = tl.load(ptr + row + col, eviction_policy=policy).to(tl.float32)
    else:
        values = tl.load(ptr + row + col, mask=inside, other=filling, eviction_policy=policy).to(tl.float32)
    return values


@triton.jit
def rows_in_registers(
    a_ptr, b_ptr, y_ptr, rows, cols, a_row, a_col, b_row, b_col,
    whole: tl.constexpr, filling: tl.constexpr, VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
):  # fmt: skip
    """TILE_ROWS rows per program. a is [rows, cols·VEC], strides (a_row·VEC, a_col), b likewise; y is contiguous.

    `cols` and the row strides are passed divided by VEC: multiplying back (in 64 bits) tells the compiler what divides
    them, and so how wide an access may be.
    """
    row = tl.program_id(0).to(tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)[:, None]
    col = tl.arange(0, TILE_COLS)[None, :]
    inside = (row < rows) & (col < cols * VEC)
    a = load(a_ptr, row * a_row * VEC, col.to(tl.int64) * a_col, inside, filling, "")
    b = load(b_ptr, row * b_row * VEC, col.to(tl.int64) * b_col, inside, filling, "")
    y = whole(a, b)
    tl.store(y_ptr + row * cols * VEC + col, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rows_in_chunks(
    a_ptr, b_ptr, y_ptr, cols, a_row, a_col, b_row, b_col,
    absorb: tl.constexpr, combine: tl.constexpr, finish: tl.constexpr, filling: tl.constexpr,
    VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One row per program, in two passes over chunks. Pointers as in rows_in_registers.

    Forward: running numbers for each group of WIDTH elements that lie in one thread, so the loop has no barrier and no
    shuffle. Back: the last chunk is still in registers, and the ones before it were read most recently and are
    likeliest to be in L2.
    """
    GROUPS: tl.constexpr = CHUNK // WIDTH
    at = columns_of_groups(GROUPS, VEC, WIDTH)
    wide = at.to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    a_start, b_start = row * a_row * VEC, row * b_row * VEC
    y_ptr += row * cols * VEC
    n = (tl.zeros([], tl.int64) + cols) * VEC
    last = (n - 1) // CHUNK * CHUNK

    state = tl.full([GROUPS], filling, tl.float32)
    more = tl.zeros([GROUPS], tl.float32)
    for start in range(0, last, CHUNK):
        a_chunk = load(a_ptr, a_start + start * a_col, wide * a_col, None, filling, "evict_last")
        b_chunk = load(b_ptr, b_start + start * b_col, wide * b_col, None, filling, "evict_last")
        state, more = absorb(a_chunk, b_chunk, state, more)
    in_last = at < n - last
    a = load(a_ptr, a_start + last * a_col, wide * a_col, in_last, filling, "")
    b = load(b_ptr, b_start + last * b_col, wide * b_col, in_last, filling, "")
    state, more = absorb(a, b, state, more)

    first, second = combine(state, more)
    y = finish(a, b, first, second)
    tl.store(y_ptr + last + at, y.to(y_ptr.dtype.element_ty), mask=in_last, eviction_policy="evict_first")
    for done in range(0, last, CHUNK):
        start = last - CHUNK - done
        a_chunk = load(a_ptr, a_start + start * a_col, wide * a_col, None, filling, "evict_first")
        b_chunk = load(b_ptr, b_start + start * b_col, wide * b_col, None, filling, "evict_first")
        y_chunk = finish(a_chunk, b_chunk, first, second)
        tl.store(y_ptr + start + at, y_chunk.to(y_ptr.dtype.element_ty), eviction_policy="evict_first")


@triton.jit
def peel(start, n, VEC: tl.constexpr):
    """The elements of a row that start on a multiple of VEC, as groups of VEC: where they start, how many elements are
    before them, and how many groups there are. The row has n elements and begins at element `start` of the tensor.

    The product tells the compiler what divides the start, and so that an access may be 16 bytes wide.
    """
    aligned = (start + VEC - 1) // VEC * VEC
    head = tl.minimum(aligned - start, n)
    return aligned, head, (n - head) // VEC


@triton.jit
def extra_columns(head, groups, n, VEC: tl.constexpr):
    """The columns before and after the groups, [1, 2·VEC], and which of them exist."""
    i = tl.arange(0, 2 * VEC)[None, :]
    return tl.where(i < head, i, groups * VEC + i), i < n - groups * VEC


@triton.jit
def columns_of_groups(GROUPS: tl.constexpr, VEC: tl.constexpr, WIDTH: tl.constexpr):
    """Columns [GROUPS, WIDTH]: a group is one 16-byte access, or the elements that a thread reads one at a time."""
    group = tl.arange(0, GROUPS)[:, None]
    member = tl.arange(0, WIDTH)[None, :]
    return group * WIDTH + member if VEC > 1 else group + member * GROUPS
