"""Softmax over the last dim in Triton: rows that fit in registers are read once, wider ones from L2 again.

The maximum is subtracted before anything is scaled: rows of ±1000, or masked with the lowest finite
number, keep their differences exact. `tl.exp` is already the GPU's 2^x with one multiplication.
"""

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.layout import last_dim

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
# (2026-11-15), bf16 ×32768 3726 GB/s in chunks of 8192 against 3163 in registers.
CHUNKS = {
    4: ((None, 32768, 32),),
    2: ((32768, 8192, 8), (65536, 16384, 16), (None, 32768, 32)),
}
REGISTERS_UP_TO = {4: 32768, 2: 16384}
CHUNK_NARROW, WARPS_NARROW = 8192, 32  # one-element accesses need an address each: a thread takes 8


def softmax_triton(x: torch.Tensor) -> torch.Tensor:
    require_float(x, "softmax")
    x, y, size = last_dim(x)
    rows, cols = size.rows, size.cols
    if rows * cols == 0:
        return y
    vec = vector_width([x, y], cols, size.x_row) if size.x_col == 1 else 1
    shape = (rows, cols // vec, size.x_row // vec, size.x_col)
    with same_device(x):
        for limit, elements, warps in IN_REGISTERS:
            if cols <= limit <= REGISTERS_UP_TO[x.element_size()]:
                tile_cols = triton.next_power_of_2(cols)
                # Accesses of one element need an address each: fewer rows, or the addresses spill.
                tile_rows = max(1, elements // tile_cols // (1 if vec > 1 else 4))
                grid = (triton.cdiv(rows, tile_rows),)
                softmax_tile[grid](x, y, *shape, vec, tile_rows, tile_cols, num_warps=warps)
                return y
        width, chunk, warps = 4, CHUNK_NARROW, WARPS_NARROW
        if vec > 1:
            table = CHUNKS[x.element_size()]
            width, (chunk, warps) = vec, next((c, w) for limit, c, w in table if limit is None or cols <= limit)
        softmax_wide[(rows,)](x, y, *shape[1:], vec, width, chunk, num_warps=warps)
    return y


@triton.jit
def softmax_tile(
    x_ptr, y_ptr, rows, cols, x_row, x_col, VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr
):
    """Whole rows in registers. x is [rows, cols·VEC], strides (x_row·VEC, x_col); y the same, contiguous.

    `cols` and `x_row` are passed divided by VEC: multiplying back (in 64 bits) tells the compiler what divides
    them, and so how wide an access may be. Lanes beyond the row hold −inf, which changes neither max nor sum.
    """
    row = tl.program_id(0).to(tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)[:, None]
    col = tl.arange(0, TILE_COLS)[None, :]
    inside = (row < rows) & (col < cols * VEC)
    x = tl.load(x_ptr + row * x_row * VEC + col.to(tl.int64) * x_col, mask=inside, other=-float("inf"))
    x = x.to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))  # −inf − −inf is NaN: PyTorch's answer for such a row
    y = e * (1.0 / tl.sum(e, axis=1, keep_dims=True))
    tl.store(y_ptr + row * cols * VEC + col, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def softmax_wide(x_ptr, y_ptr, cols, x_row, x_col, VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    """One row per program, in two passes over chunks. Pointers as in softmax_tile.

    Forward: a running maximum and sum for each group of WIDTH elements that lie in one thread, so the
    loop has no barrier and no shuffle. Back: the last chunk is still in registers, and the ones before
    it were read most recently and are likeliest to be in L2.
    """
    GROUPS: tl.constexpr = CHUNK // WIDTH
    group = tl.arange(0, GROUPS)[:, None]
    member = tl.arange(0, WIDTH)[None, :]
    # A group is one 16-byte access, or the elements that a thread reads one at a time.
    at = group * WIDTH + member if VEC > 1 else group + member * GROUPS
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row * VEC
    y_ptr += row * cols * VEC
    n = (tl.zeros([], tl.int64) + cols) * VEC
    last = (n - 1) // CHUNK * CHUNK

    peak = tl.full([GROUPS], -float("inf"), tl.float32)
    total = tl.zeros([GROUPS], tl.float32)
    for start in range(0, last, CHUNK):
        x = tl.load(x_ptr + start * x_col + at.to(tl.int64) * x_col, eviction_policy="evict_last").to(tl.float32)
        peak, total = absorb(x, peak, total)
    in_last = at < n - last
    x = tl.load(x_ptr + last * x_col + at.to(tl.int64) * x_col, mask=in_last, other=-float("inf")).to(tl.float32)
    peak, total = absorb(x, peak, total)

    row_peak = tl.max(peak, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(peak - finite(row_peak)), axis=0)
    y = tl.exp(x - row_peak) * scale
    tl.store(y_ptr + last + at, y.to(y_ptr.dtype.element_ty), mask=in_last, eviction_policy="evict_first")
    for done in range(0, last, CHUNK):
        start = last - CHUNK - done
        x = tl.load(x_ptr + start * x_col + at.to(tl.int64) * x_col, eviction_policy="evict_first").to(tl.float32)
        y = tl.exp(x - row_peak) * scale
        tl.store(y_ptr + start + at, y.to(y_ptr.dtype.element_ty), eviction_policy="evict_first")


@triton.jit
def absorb(x, peak, total):
    """The running maximum and the sum of exp(x − maximum), updated with the columns of x."""
    higher = tl.maximum(peak, tl.max(x, axis=1))
    base = finite(higher)
    return higher, total * tl.exp(peak - base) + tl.sum(tl.exp(x - base[:, None]), axis=1)


@triton.jit
def finite(peak):
    """The number to subtract. If all is −inf so far, −inf − −inf would be NaN; with a finite number exp gives 0."""
    return tl.where(peak == -float("inf"), 0.0, peak)
