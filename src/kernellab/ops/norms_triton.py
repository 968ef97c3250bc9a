"""Norms along the last dim in Triton: how rows are moved. Jitted functions of the op say what is computed.

Forward reads a row once where it fits in registers; wider rows are read from L2 again. Backward has persistent
programs, which add up the gradients of the parameters over their rows in registers; a small kernel adds up the
programs' sums, always in the same order. Where the sums do not fit in registers, a second kernel reads the columns.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.gpus import sm_count
from kernellab.ops.layout import Grid
from kernellab.ops.norms import NormBackward, NormForward
from kernellab.ops.rows_triton import IN_REGISTERS, load

# Columns up to which forward holds a row in registers; with a residual, half of them. Wider rows: chunk and warps.
FORWARD_IN_REGISTERS = 16384
CHUNK_BYTES, WARPS = 32768, 16
CHUNK_NARROW = 4096  # one-element accesses need an address each

# Backward: (columns up to, elements per program, warps, programs per SM). A thread holds at most 16 elements, because
# it also holds their sums for the weight and the bias.
BACKWARD_IN_REGISTERS = (
    (1024, 2048, 4, 4),
    (2048, 2048, 4, 4),
    (4096, 4096, 8, 2),
    (8192, 8192, 16, 1),
)

# The sums over columns of wider rows: rows at a time, columns and warps of a program, and programs per SM.
STRIP_ROWS, STRIP_COLS, STRIP_WARPS, STRIPS_PER_SM = 8, 256, 4, 8
# The sums over programs.
PARTIAL_ROWS, PARTIAL_COLS = 64, 32


class TritonNorm(NamedTuple):
    """`normalized(x, mean, rstd)` of a row, and `gradient(g, normal, mean_g, mean_product, rstd)`: the gradient of x
    from that of the normalized values, g, and from the means of g and of g·normal along the row."""

    op: str
    normalized: triton.JITFunction
    derivative: triton.JITFunction
    centred: bool

    def check(self, x: torch.Tensor) -> None:
        require_float(x, self.op)

    def forward(self, pass_: NormForward) -> None:
        with same_device(pass_.y):
            _launch_forward(self, pass_)

    def backward(self, pass_: NormBackward) -> None:
        with same_device(pass_.dx):
            _launch_backward(self, pass_)


def _launch_forward(norm: TritonNorm, p: NormForward) -> None:
    rows, cols = p.grid.rows, p.grid.cols
    vec = _vector_width(p.grid, p.x, p.residual, p.weight, p.bias, p.y, p.total)
    strides = _strides(p.grid, (True, p.residual is not None), vec)
    tensors = (p.x, p.residual, p.weight, p.bias, p.y, p.total, p.mean, p.rstd)
    limit = FORWARD_IN_REGISTERS // (1 if p.residual is None else 2)
    for most, elements, warps in IN_REGISTERS:
        if cols <= most <= limit:
            tile_cols = triton.next_power_of_2(cols)
            tile_rows = max(1, elements // tile_cols // (1 if vec > 1 else 4))
            forward_in_registers[(triton.cdiv(rows, tile_rows),)](
                *tensors, rows, cols // vec, *strides, p.eps, norm.normalized, norm.centred, vec, tile_rows, tile_cols,
                num_warps=warps,
            )  # fmt: skip
            return
    width, chunk = (vec, CHUNK_BYTES // p.y.element_size()) if vec > 1 else (4, CHUNK_NARROW)
    forward_in_chunks[(rows,)](
        *tensors, cols // vec, *strides, p.eps, norm.normalized, norm.centred, vec, width, chunk, num_warps=WARPS
    )


def _launch_backward(norm: TritonNorm, p: NormBackward) -> None:
    rows, cols = p.grid.rows, p.grid.cols
    vec = _vector_width(p.grid, p.dy, p.x, p.dtotal, p.weight, p.dx)
    strides = _strides(p.grid, (True, True, p.dtotal is not None), vec)
    rows_of = (p.dy, p.x, p.dtotal, p.weight, p.mean, p.rstd, p.dx)
    sms, wanted = sm_count(p.dx.device), (p.dweight is not None, p.dbias is not None)
    for most, elements, warps, per_sm in BACKWARD_IN_REGISTERS:
        if cols <= most:
            tile_cols = triton.next_power_of_2(cols)
            tile_rows = max(1, elements // tile_cols // (1 if vec > 1 else 4))
            programs = min(triton.cdiv(rows, tile_rows), sms * per_sm)
            sums = _partial_sums(p, programs)
            backward_in_registers[(programs,)](
                *rows_of, *sums, rows, cols // vec, *strides, norm.normalized, norm.derivative, *wanted,
                vec, tile_rows, tile_cols, num_warps=warps,
            )  # fmt: skip
            _add_up(p, sums, programs)
            return
    width, chunk = (vec, CHUNK_BYTES // 4) if vec > 1 else (4, CHUNK_NARROW)
    backward_in_chunks[(rows,)](
        *rows_of, cols // vec, *strides, norm.normalized, norm.derivative, vec, width, chunk, num_warps=WARPS
    )
    if any(wanted):
        strips = triton.cdiv(cols, STRIP_COLS)
        programs = max(1, min(triton.cdiv(rows, STRIP_ROWS), sms * STRIPS_PER_SM // strips))
        sums = _partial_sums(p, programs)
        columns[(strips, programs)](
            p.dy, p.x, p.mean, p.rstd, *sums, rows, cols // vec, *strides[:4], norm.normalized, *wanted,
            vec, STRIP_ROWS, STRIP_COLS, num_warps=STRIP_WARPS,
        )  # fmt: skip
        _add_up(p, sums, programs)


def _vector_width(grid: Grid, *tensors: torch.Tensor | None) -> int:
    if not grid.unit_columns:
        return 1
    return vector_width([t for t in tensors if t is not None], grid.cols, *(row for row, _ in grid.strides))


def _strides(grid: Grid, given: tuple[bool, ...], vec: int) -> list[int]:
    """Row stride, in accesses, and column stride of each input; 0 for one that is not given."""
    strides = iter(grid.strides)
    pairs = [next(strides) if is_given else (0, 0) for is_given in given]
    return [stride for row, col in pairs for stride in (row // vec, col)]


def _partial_sums(p: NormBackward, programs: int) -> list[torch.Tensor | None]:
    """A row for each program; None for a parameter that is not there."""
    sizes, device = (programs, p.grid.cols), p.dx.device
    wanted = (p.dweight, p.dbias)
    return [None if t is None else torch.empty(sizes, dtype=torch.float32, device=device) for t in wanted]


def _add_up(p: NormBackward, sums: list[torch.Tensor | None], programs: int) -> None:
    if any(t is not None for t in sums):
        blocks = triton.cdiv(p.grid.cols, PARTIAL_COLS)
        add_partial_sums[(blocks,)](*sums, p.dweight, p.dbias, programs, p.grid.cols, PARTIAL_ROWS, PARTIAL_COLS)


@triton.jit
def store(ptr, at, value, inside):
    """Rounded to the tensor's dtype; nothing where there is no such tensor."""
    if ptr is not None:
        tl.store(ptr + at, value.to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def add_rows(x_ptr, r_ptr, x_row, r_row, x_at, r_at, inside, policy: tl.constexpr):
    """x, or x + residual rounded as it is stored."""
    x = load(x_ptr, x_row, x_at, inside, 0.0, policy)
    if r_ptr is not None:
        x = (x + load(r_ptr, r_row, r_at, inside, 0.0, policy)).to(x_ptr.dtype.element_ty).to(tl.float32)
    return x


@triton.jit
def scale_and_shift(y, w_ptr, b_ptr, at, inside):
    if w_ptr is not None:
        y = y * tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if b_ptr is not None:
        y = y + tl.load(b_ptr + at, mask=inside, other=0.0).to(tl.float32)
    return y


@triton.jit
def forward_in_registers(
    x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, total_ptr, mean_ptr, rstd_ptr, rows, cols, x_row, x_col, r_row, r_col, eps,
    normalized: tl.constexpr, CENTRED: tl.constexpr, VEC: tl.constexpr, TILE_ROWS: tl.constexpr,
    TILE_COLS: tl.constexpr,
):  # fmt: skip
    """TILE_ROWS rows per program. x is [rows, cols·VEC], strides (x_row·VEC, x_col), the residual r likewise; weight
    and bias are [cols·VEC], y and total contiguous, mean and rstd [rows]. The variance is that of differences from the
    mean, which a second walk over the registers computes.
    """
    row = tl.program_id(0).to(tl.int64) * TILE_ROWS + tl.arange(0, TILE_ROWS)[:, None]
    col = tl.arange(0, TILE_COLS)[None, :]
    n = (tl.zeros([], tl.int64) + cols) * VEC
    in_row, in_col = row < rows, col < n
    inside = in_row & in_col
    wide = col.to(tl.int64)
    x = add_rows(x_ptr, r_ptr, row * x_row * VEC, row * r_row * VEC, wide * x_col, wide * r_col, inside, "")
    store(total_ptr, row * n + col, x, inside)
    per_element = 1.0 / n.to(tl.float32)
    mean = tl.zeros([TILE_ROWS, 1], tl.float32)
    distance = x
    if CENTRED:
        mean = tl.sum(x, axis=1, keep_dims=True) * per_element
        distance = tl.where(in_col, x - mean, 0.0)
        store(mean_ptr, row, mean, in_row)
    rstd = tl.rsqrt(tl.sum(distance * distance, axis=1, keep_dims=True) * per_element + eps)
    store(rstd_ptr, row, rstd, in_row)
    y = scale_and_shift(normalized(x, mean, rstd), w_ptr, b_ptr, col, in_col)
    store(y_ptr, row * n + col, y, inside)


@triton.jit
def absorb(x, inside, before, mean, squares, CENTRED: tl.constexpr):
    """The mean and the sum of squared distances from it, for each group, updated with a chunk's elements.

    `before` elements were seen by each group. Groups hold a few elements, so the differences stay small: nothing is
    computed as a difference of large sums.
    """
    if CENTRED:
        count = tl.sum(inside.to(tl.float32), axis=1)
        here = tl.sum(x, axis=1) / tl.maximum(count, 1.0)
        distance = tl.where(inside, x - here[:, None], 0.0)
        share = count / tl.maximum(before + count, 1.0)
        apart = here - mean
        # In this order the first chunk, with before = 0, adds 0 also where apart² would overflow.
        squares += tl.sum(distance * distance, axis=1) + tl.where(count > 0, apart * (before * share) * apart, 0.0)
        mean += tl.where(count > 0, apart * share, 0.0)
    else:
        squares += tl.sum(x * x, axis=1)
    return mean, squares


@triton.jit
def forward_in_chunks(
    x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, total_ptr, mean_ptr, rstd_ptr, cols, x_row, x_col, r_row, r_col, eps,
    normalized: tl.constexpr, CENTRED: tl.constexpr, VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One row per program, in two passes over chunks. Pointers as in forward_in_registers."""
    GROUPS: tl.constexpr = CHUNK // WIDTH
    group = tl.arange(0, GROUPS)[:, None]
    member = tl.arange(0, WIDTH)[None, :]
    at = group * WIDTH + member if VEC > 1 else group + member * GROUPS
    wide = at.to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    x_start, r_start = row * x_row * VEC, row * r_row * VEC
    n = (tl.zeros([], tl.int64) + cols) * VEC
    last = (n - 1) // CHUNK * CHUNK

    mean = tl.zeros([GROUPS], tl.float32)
    squares = tl.zeros([GROUPS], tl.float32)
    seen = 0.0  # by each group; exact: chunks of one row are fewer than 2²⁴
    for start in range(0, last, CHUNK):
        here = tl.full([GROUPS, WIDTH], 1, tl.int1)
        x = add_rows(
            x_ptr, r_ptr, x_start + start * x_col, r_start + start * r_col, wide * x_col, wide * r_col, None, ""
        )
        mean, squares = absorb(x, here, seen, mean, squares, CENTRED)
        seen += WIDTH
    in_last = at < n - last
    x = add_rows(x_ptr, r_ptr, x_start + last * x_col, r_start + last * r_col, wide * x_col, wide * r_col, in_last, "")
    mean, squares = absorb(x, in_last, seen, mean, squares, CENTRED)

    per_element = 1.0 / n.to(tl.float32)
    row_mean = 0.0
    if CENTRED:
        counts = seen + tl.sum(in_last.to(tl.float32), axis=1)
        row_mean = tl.sum(mean * counts, axis=0) * per_element
        apart = mean - row_mean
        squares += tl.where(counts > 0, apart * apart * counts, 0.0)
        tl.store(mean_ptr + row, row_mean)
    rstd = tl.rsqrt(tl.sum(squares, axis=0) * per_element + eps)
    tl.store(rstd_ptr + row, rstd)

    # The last chunk first: it is still in registers, and those before it are likeliest to be in L2.
    for done in range(0, last + CHUNK, CHUNK):
        start = last - done
        inside = at < n - start
        x = add_rows(
            x_ptr, r_ptr, x_start + start * x_col, r_start + start * r_col, wide * x_col, wide * r_col, inside, ""
        )
        store(total_ptr, row * n + start + at, x, inside)
        y = scale_and_shift(normalized(x, row_mean, rstd), w_ptr, b_ptr, start + at, inside)
        store(y_ptr, row * n + start + at, y, inside)


@triton.jit
def load_statistics(mean_ptr, rstd_ptr, row, inside):
    """A mean of 0 for norms that subtract none; rows that do not exist get zeros, and so add nothing to sums."""
    rstd = tl.load(rstd_ptr + row, mask=inside, other=0.0)
    mean = tl.zeros_like(rstd)
    if mean_ptr is not None:
        mean = tl.load(mean_ptr + row, mask=inside, other=0.0)
    return mean, rstd


@triton.jit
def scale(dy, w_ptr, at, inside):
    """The gradient of the normalized values."""
    if w_ptr is not None:
        dy = dy * tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
    return dy


@triton.jit
def add_upstream(dx, t_ptr, row, at, inside):
    if t_ptr is not None:
        dx = dx + load(t_ptr, row, at, inside, 0.0, "")
    return dx


@triton.jit
def backward_in_registers(
    dy_ptr, x_ptr, t_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, rows, cols,
    dy_row, dy_col, x_row, x_col, t_row, t_col,
    normalized: tl.constexpr, gradient: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr,
    VEC: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
):  # fmt: skip
    """Every program takes TILE_ROWS rows at a time, until none is left. dy, x and t, the gradient of the sum, are
    [rows, cols·VEC] with strides (dy_row·VEC, dy_col) and so on; dx is contiguous. dw and db are [programs, cols·VEC]:
    the sums over a program's rows.
    """
    program = tl.program_id(0)
    col = tl.arange(0, TILE_COLS)[None, :]
    n = (tl.zeros([], tl.int64) + cols) * VEC
    in_col = col < n
    wide = col.to(tl.int64)
    per_element = 1.0 / n.to(tl.float32)
    dw = tl.zeros([TILE_ROWS, TILE_COLS], tl.float32)
    db = tl.zeros([TILE_ROWS, TILE_COLS], tl.float32)
    for tile in range(program, tl.cdiv(rows, TILE_ROWS), tl.num_programs(0)):
        row = (tl.zeros([], tl.int64) + tile) * TILE_ROWS + tl.arange(0, TILE_ROWS)[:, None]
        in_row = row < rows
        inside = in_row & in_col
        dy = load(dy_ptr, row * dy_row * VEC, wide * dy_col, inside, 0.0, "")
        x = load(x_ptr, row * x_row * VEC, wide * x_col, inside, 0.0, "")
        mean, rstd = load_statistics(mean_ptr, rstd_ptr, row, in_row)
        normal = normalized(x, mean, rstd)
        if WEIGHT:
            dw += dy * normal
        if BIAS:
            db += dy
        g = scale(dy, w_ptr, col, in_col)
        mean_g = tl.sum(g, axis=1, keep_dims=True) * per_element
        mean_product = tl.sum(tl.where(in_col, g * normal, 0.0), axis=1, keep_dims=True) * per_element
        dx = gradient(g, normal, mean_g, mean_product, rstd)
        dx = add_upstream(dx, t_ptr, row * t_row * VEC, wide * t_col, inside)
        store(dx_ptr, row * n + col, dx, inside)
    at = (tl.zeros([], tl.int64) + program) * n + tl.arange(0, TILE_COLS)
    in_col = tl.arange(0, TILE_COLS) < n
    if WEIGHT:
        tl.store(dw_ptr + at, tl.sum(dw, axis=0), mask=in_col)
    if BIAS:
        tl.store(db_ptr + at, tl.sum(db, axis=0), mask=in_col)


@triton.jit
def backward_in_chunks(
    dy_ptr, x_ptr, t_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, cols, dy_row, dy_col, x_row, x_col, t_row, t_col,
    normalized: tl.constexpr, gradient: tl.constexpr, VEC: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradient of x: one row per program, in two passes over chunks. Pointers as in backward_in_registers."""
    GROUPS: tl.constexpr = CHUNK // WIDTH
    group = tl.arange(0, GROUPS)[:, None]
    member = tl.arange(0, WIDTH)[None, :]
    at = group * WIDTH + member if VEC > 1 else group + member * GROUPS
    wide = at.to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    dy_start, x_start, t_start = row * dy_row * VEC, row * x_row * VEC, row * t_row * VEC
    n = (tl.zeros([], tl.int64) + cols) * VEC
    last = (n - 1) // CHUNK * CHUNK
    mean, rstd = load_statistics(mean_ptr, rstd_ptr, row, row >= 0)

    total_g = tl.zeros([GROUPS], tl.float32)
    total_product = tl.zeros([GROUPS], tl.float32)
    for start in range(0, last + CHUNK, CHUNK):
        inside = at < n - start
        x = load(x_ptr, x_start + start * x_col, wide * x_col, inside, 0.0, "")
        dy = load(dy_ptr, dy_start + start * dy_col, wide * dy_col, inside, 0.0, "")
        g = scale(dy, w_ptr, start + at, inside)
        total_g += tl.sum(g, axis=1)
        total_product += tl.sum(tl.where(inside, g * normalized(x, mean, rstd), 0.0), axis=1)
    per_element = 1.0 / n.to(tl.float32)
    mean_g = tl.sum(total_g, axis=0) * per_element
    mean_product = tl.sum(total_product, axis=0) * per_element
    for done in range(0, last + CHUNK, CHUNK):
        start = last - done
        inside = at < n - start
        x = load(x_ptr, x_start + start * x_col, wide * x_col, inside, 0.0, "")
        dy = load(dy_ptr, dy_start + start * dy_col, wide * dy_col, inside, 0.0, "")
        g = scale(dy, w_ptr, start + at, inside)
        dx = gradient(g, normalized(x, mean, rstd), mean_g, mean_product, rstd)
        dx = add_upstream(dx, t_ptr, t_start + start * t_col, wide * t_col, inside)
        store(dx_ptr, row * n + start + at, dx, inside)


@triton.jit
def columns(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, rows, cols, dy_row, dy_col, x_row, x_col,
    normalized: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, VEC: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Sums over rows: a program has COLS columns, and of the tiles of ROWS rows every num_programs(1)-th. Pointers as
    in backward_in_registers."""
    col = tl.program_id(0).to(tl.int64) * COLS + tl.arange(0, COLS)
    n = (tl.zeros([], tl.int64) + cols) * VEC
    program = tl.program_id(1)
    dw = tl.zeros([ROWS, COLS], tl.float32)
    db = tl.zeros([ROWS, COLS], tl.float32)
    for tile in range(program, tl.cdiv(rows, ROWS), tl.num_programs(1)):
        row = (tl.zeros([], tl.int64) + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < rows) & (col < n)[None, :]
        dy = load(dy_ptr, row * dy_row * VEC, col[None, :] * dy_col, inside, 0.0, "")
        x = load(x_ptr, row * x_row * VEC, col[None, :] * x_col, inside, 0.0, "")
        mean, rstd = load_statistics(mean_ptr, rstd_ptr, row, row < rows)
        if WEIGHT:
            dw += dy * normalized(x, mean, rstd)
        if BIAS:
            db += dy
    at = (tl.zeros([], tl.int64) + program) * n + col
    if WEIGHT:
        tl.store(dw_ptr + at, tl.sum(dw, axis=0), mask=col < n)
    if BIAS:
        tl.store(db_ptr + at, tl.sum(db, axis=0), mask=col < n)


@triton.jit
def add_partial_sums(
    from_w_ptr, from_b_ptr, dw_ptr, db_ptr, programs, cols, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """dw and db, [cols], from the sums of each program, [programs, cols]."""
    col = tl.program_id(0).to(tl.int64) * COLS + tl.arange(0, COLS)
    add_columns(from_w_ptr, dw_ptr, programs, cols, col, ROWS, COLS)
    add_columns(from_b_ptr, db_ptr, programs, cols, col, ROWS, COLS)


@triton.jit
def add_columns(from_ptr, to_ptr, programs, cols, col, ROWS: tl.constexpr, COLS: tl.constexpr):
    if to_ptr is not None:
        total = tl.zeros([ROWS, COLS], tl.float32)
        for start in range(0, programs, ROWS):
            row = start + tl.arange(0, ROWS)[:, None]
            inside = (row < programs) & (col < cols)[None, :]
            total += tl.load(from_ptr + row.to(tl.int64) * cols + col[None, :], mask=inside, other=0.0)
        store(to_ptr, col, tl.sum(total, axis=0), col < cols)
