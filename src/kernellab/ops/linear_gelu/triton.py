"""GeLU of a linear layer in Triton: bias and GeLU are computed from the products while they are in registers.

Backward multiplies the upstream gradient by the slope of GeLU and adds up the gradient of the bias in one kernel. What
is left are two products, for which PyTorch's own matmul is used: there is nothing to fuse into them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float, vector_width
from kernellab.ops.gelu.triton import FORMS
from kernellab.ops.gpus import sm_count
from kernellab.ops.layout import last_dim
from kernellab.ops.linear_gelu.passes import LinearSlope
from kernellab.ops.linear_triton import (
    Tiles,
    choose_tiles,
    described,
    halves_of,
    has_descriptors,
    multiply_tile,
    precision,
    tile_place,
)
from kernellab.ops.norms_triton import add_partial_sums
from kernellab.ops.rows_triton import load

# Not measured yet: benchmarks/linear.py --tune times CANDIDATES.
TILES = {
    "16-bit": ((132, Tiles(64, 128, 64, 4, 4)), (None, Tiles(128, 256, 64, 8, 3, per_sm=1, halves=True))),
    "tf32": ((None, Tiles(128, 128, 32, 8, 3, halves=True)),),
    "ieee": ((None, Tiles(128, 64, 16, 8, 3)),),
}
CANDIDATES = (
    Tiles(128, 256, 64, 8, 3, per_sm=1, halves=True),
    Tiles(128, 256, 64, 8, 4, per_sm=1, halves=True),
    Tiles(128, 256, 64, 8, 3, per_sm=1),
    Tiles(128, 256, 64, 8, 3, halves=True),
    Tiles(128, 256, 64, 8, 3, group=16, halves=True),
    Tiles(256, 128, 64, 8, 3, per_sm=1, halves=True),
    Tiles(128, 128, 64, 4, 2, per_sm=2, halves=True),
    Tiles(128, 128, 64, 4, 3, per_sm=2, halves=True),
    Tiles(128, 128, 32, 4, 5, per_sm=2, halves=True),
    Tiles(128, 128, 64, 4, 3, halves=True),
    Tiles(128, 128, 64, 4, 4),
    Tiles(128, 128, 64, 8, 4),
    Tiles(64, 256, 64, 4, 3, halves=True),
)
# Backward: rows at a time, columns and warps of a program, and programs per SM.
SLOPE_ROWS, SLOPE_COLS, SLOPE_WARPS, SLOPES_PER_SM = 16, 256, 4, 4
# The sums over programs, as in norms_triton.
PARTIAL_ROWS, PARTIAL_COLS = 64, 32


def forward(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, approximate: str, *, keep: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The result, and with `keep` the values that GeLU was applied to."""
    return forward_in(None, x, weight, bias, approximate, keep=keep)


def forward_in(
    tiles: Tiles | None,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    approximate: str,
    *,
    keep: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The same in these tiles; None: in those that TILES says."""
    require_float(x, "linear_gelu")
    (rows, depth), cols = x.shape, weight.shape[0]
    y = x.new_empty(rows, cols)
    z = torch.empty_like(y) if keep else None
    tma = has_descriptors(x, weight, y)
    tiles = tiles or choose_tiles(TILES, x, weight, tma=tma, stores=True)
    value, _ = FORMS[approximate]
    count = triton.cdiv(rows, tiles.rows) * triton.cdiv(cols, tiles.cols)
    programs = min(count, tiles.per_sm * sm_count(x.device)) if tiles.per_sm else count
    tensors: tuple[object, ...] = (x, weight, y, z)
    if tma:
        width = tiles.cols // (2 if tiles.halves else 1)
        results = (described(t, tiles.rows, width) if t is not None else None for t in (y, z))
        tensors = (described(x, tiles.rows, tiles.depth), described(weight, tiles.cols, tiles.depth), *results)
    with same_device(x):
        linear_gelu_forward[(programs,)](
            *tensors, bias, rows, cols, depth, x.stride(0), weight.stride(0), programs, value, keep,
            tiles.rows, tiles.cols, tiles.depth, tiles.group, tiles.per_sm > 0, tiles.halves, tma,
            depth % tiles.depth == 0, precision(x), num_warps=tiles.warps, num_stages=tiles.stages,
        )  # fmt: skip
    return y, z


def slope(dy: torch.Tensor, z: torch.Tensor, approximate: str, *, with_bias: bool) -> LinearSlope:
    """The gradient of the values that GeLU was applied to, and that of the bias."""
    (dy, _, dz), grid = last_dim(dy, z)
    dbias = z.new_empty(grid.cols) if with_bias else None
    (dy_row, dy_col), (z_row, _), _ = grid.strides
    vec = vector_width([dy, z, dz], grid.cols, dy_row, z_row) if dy_col == 1 else 1
    _, backward = FORMS[approximate]
    strips = triton.cdiv(grid.cols, SLOPE_COLS)
    most = max(1, sm_count(z.device) * SLOPES_PER_SM // strips)
    programs = min(triton.cdiv(grid.rows, SLOPE_ROWS), most)
    partial = z.new_empty((programs, grid.cols), dtype=torch.float32) if with_bias else None
    with same_device(z):
        linear_gelu_slope[(strips, programs)](
            dy, z, dz, partial, grid.rows, grid.cols // vec, dy_row // vec, dy_col, backward,
            vec, SLOPE_ROWS, SLOPE_COLS, num_warps=SLOPE_WARPS,
        )  # fmt: skip
        if with_bias:
            blocks = triton.cdiv(grid.cols, PARTIAL_COLS)
            add_partial_sums[(blocks,)](None, partial, None, dbias, programs, grid.cols, PARTIAL_ROWS, PARTIAL_COLS)
    return LinearSlope(dz, dbias)


@triton.jit
def finish(
    sums, y, z, bias_ptr, row, col, rows, cols, value: tl.constexpr, KEEP: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Adds the bias to a tile of products, and stores it and its GeLU."""
    at = col + tl.arange(0, COLS)
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + at, mask=at < cols, other=0.0).to(tl.float32)[None, :]
    result = value(sums)
    if TMA:
        if KEEP:
            z.store([row, col], sums.to(z.dtype))
        y.store([row, col], result.to(y.dtype))
    else:
        row_at = row + tl.arange(0, ROWS)
        inside = (row_at < rows)[:, None] & (at < cols)[None, :]
        place = row_at.to(tl.int64)[:, None] * cols + at[None, :]
        if KEEP:
            tl.store(z + place, sums.to(z.dtype.element_ty), mask=inside)
        tl.store(y + place, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def linear_gelu_forward(
    x, w, y, z, bias_ptr, rows, cols, depth, x_row, w_row, programs, value: tl.constexpr, KEEP: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr, PERSISTENT: tl.constexpr,
    HALVES: tl.constexpr, TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Each of the programs computes every `programs`-th tile. x, w, y and z as in `multiply_tile`; y and z, which is
    written if KEEP, are contiguous."""
    row_tiles, col_tiles = tl.cdiv(rows, ROWS), tl.cdiv(cols, COLS)
    for tile in tl.range(tl.program_id(0), row_tiles * col_tiles, programs, flatten=PERSISTENT):
        row_tile, col_tile = tile_place(tile, row_tiles, col_tiles, GROUP)
        row, col = row_tile * ROWS, col_tile * COLS
        sums = multiply_tile(
            x, w, row, col, rows, cols, depth, x_row, w_row, ROWS, COLS, DEPTH, TMA, EVEN, PRECISION
        )  # fmt: skip
        if HALVES:
            left, right = halves_of(sums, ROWS, COLS)
            finish(left, y, z, bias_ptr, row, col, rows, cols, value, KEEP, ROWS, COLS // 2, TMA)
            finish(right, y, z, bias_ptr, row, col + COLS // 2, rows, cols, value, KEEP, ROWS, COLS // 2, TMA)
        else:
            finish(sums, y, z, bias_ptr, row, col, rows, cols, value, KEEP, ROWS, COLS, TMA)


@triton.jit
def linear_gelu_slope(
    dy_ptr, z_ptr, dz_ptr, partial_ptr, rows, cols, dy_row, dy_col, backward: tl.constexpr,
    VEC: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """dz, and in partial, [programs, cols·VEC], the sums over the rows of each program. A program has COLS columns, and
    of the tiles of ROWS rows every num_programs(1)-th. dy is [rows, cols·VEC], strides (dy_row·VEC, dy_col); z and dz
    are contiguous."""
    col = tl.program_id(0).to(tl.int64) * COLS + tl.arange(0, COLS)
    n = (tl.zeros([], tl.int64) + cols) * VEC
    program = tl.program_id(1)
    sums = tl.zeros([ROWS, COLS], tl.float32)
    for tile in range(program, tl.cdiv(rows, ROWS), tl.num_programs(1)):
        row = (tl.zeros([], tl.int64) + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < rows) & (col < n)[None, :]
        dy = load(dy_ptr, row * dy_row * VEC, col[None, :] * dy_col, inside, 0.0, "")
        z = load(z_ptr, row * n, col[None, :], inside, 0.0, "")
        dz = backward(dy, z)
        tl.store(dz_ptr + row * n + col[None, :], dz.to(dz_ptr.dtype.element_ty), mask=inside)
        if partial_ptr is not None:
            sums += tl.where(inside, dz, 0.0)
    if partial_ptr is not None:
        at = (tl.zeros([], tl.int64) + program) * n + col
        tl.store(partial_ptr + at, tl.sum(sums, axis=0), mask=col < n)
