"""Matmul in Triton: programs that stay and take tile after tile, through tensor descriptors where memory allows them.

The tables below are fixed: nothing is tuned at run time, so that a first call takes no longer and every machine of a
kind computes the same bits. `benchmarks/matmul.py OUT --candidates` measures what else could stand there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernellab.build.cuda import same_device
from kernellab.ops.floats import require_float
from kernellab.ops.gpus import capability, shared_bytes, sm_count
from kernellab.ops.matmul.matrices import Matrix, as_matrix, new_product

MOST_DESCRIBED = 1 << 31  # a descriptor's sizes have 32 bits


class Tiles(NamedTuple):
    """A program computes rows × cols results, `depth` terms at a time, with the operands of `stages` under way.

    `halves`: it writes its results in two halves, which takes half the shared memory and leaves it for a stage.
    `group`: rows of tiles that programs which run at the same time share. `flat`: the loops over tiles and over their
    depth are one.
    """

    rows: int
    cols: int
    depth: int
    stages: int
    warps: int
    halves: bool = False
    group: int = 8
    flat: bool = True

    def number_for(self, rows: int, cols: int) -> int:
        return triton.cdiv(rows, self.rows) * triton.cdiv(cols, self.cols)

    def shared_bytes(self, element_bytes: int, *, stays: bool) -> int:
        """`stays`: operands of the next tile are there while results are written. Otherwise these take their place."""
        operands = self.stages * (self.rows + self.cols) * self.depth * element_bytes
        results = self.rows * self.cols // (2 if self.halves else 1) * element_bytes
        return operands + results if stays else max(operands, results)


# By bytes of an element: the first that fits the GPU, and of which every SM gets one, is taken; else the last. float32
# has no entry: multiply-adds read their operands differently from how the copy engine writes them.
DESCRIBED: dict[int, tuple[Tiles, ...]] = {
    2: (
        Tiles(128, 256, 64, 3, 8, halves=True),
        Tiles(128, 128, 64, 4, 8),
        Tiles(64, 128, 64, 3, 4),
        Tiles(64, 64, 64, 3, 4),
    ),
}
# Without descriptors.
POINTED: dict[int, tuple[Tiles, ...]] = {
    2: (Tiles(128, 256, 64, 3, 8), Tiles(128, 128, 32, 3, 4), Tiles(64, 64, 32, 3, 4)),
    4: (Tiles(128, 128, 16, 3, 8), Tiles(64, 64, 16, 3, 8)),
}


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    require_float(a, "matmul")
    c = new_product(a, b)
    if not c.numel():
        return c
    if not a.shape[1]:
        return c.zero_()
    first, second = as_matrix(a), as_matrix(b)
    if takes_descriptors(first, second, c):
        launch_described(first, second, c, choose(DESCRIBED, c))
    else:
        launch_pointed(first, second, c, choose(POINTED, c))
    return c


def choose(table: dict[int, tuple[Tiles, ...]], c: torch.Tensor) -> Tiles:
    most, sms, size = shared_bytes(c.device), sm_count(c.device), c.element_size()
    fitting = [tiles for tiles in table[size] if tiles.shared_bytes(size, stays=table is DESCRIBED) <= most]
    return next((tiles for tiles in fitting if tiles.number_for(*c.shape) >= sms), fitting[-1])


def takes_descriptors(a: Matrix, b: Matrix, c: torch.Tensor) -> bool:
    """Whether the copy engine of sm_90 and later can bring and take the tiles."""
    result = Matrix(c, True, c.shape[1])
    sizes = (*c.shape, a.tensor.shape[1])
    expanded = 0 in (a.step, b.step)
    return (
        capability(c.device) >= (9, 0)
        and c.element_size() in DESCRIBED
        and all(matrix.aligned for matrix in (a, b, result))
        and max(sizes) < MOST_DESCRIBED
        and not expanded
    )


# With descriptors --------------------------------------------------------------------------------------


def launch_described(a: Matrix, b: Matrix, c: torch.Tensor, tiles: Tiles) -> None:
    count = tiles.number_for(*c.shape)
    programs = min(sm_count(c.device), count)
    with same_device(c):
        triton.set_allocator(_new_workspace)  # of this thread: the kernel keeps its descriptors there
        multiply_described[(programs,)](
            a.tensor, b.tensor, c, *c.shape, a.tensor.shape[1], a.step, b.step, programs,
            a.by_rows, b.by_rows, tiles.rows, tiles.cols, tiles.depth, tiles.group, tiles.halves, tiles.flat,
            num_warps=tiles.warps, num_stages=tiles.stages,
        )  # fmt: skip


def _new_workspace(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


@triton.jit
def multiply_described(
    a_ptr, b_ptr, c_ptr, rows, cols, depth, a_step, b_step, programs,
    A_BY_ROWS: tl.constexpr, B_BY_ROWS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
    GROUP: tl.constexpr, HALVES: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """c = a·b: c is [rows, cols], contiguous. Each operand is contiguous along its rows, or else along its columns.

    A program takes every `programs`-th tile. FLAT: the loops over its tiles and over their depth become one, so that
    the first operands of a tile are on their way while the tile before is written.
    """
    if A_BY_ROWS:
        a = tl.make_tensor_descriptor(a_ptr, [rows, depth], [a_step, 1], [ROWS, DEPTH])
    else:
        a = tl.make_tensor_descriptor(a_ptr, [depth, rows], [a_step, 1], [DEPTH, ROWS])
    if B_BY_ROWS:
        b = tl.make_tensor_descriptor(b_ptr, [depth, cols], [b_step, 1], [DEPTH, COLS])
    else:
        b = tl.make_tensor_descriptor(b_ptr, [cols, depth], [b_step, 1], [COLS, DEPTH])
    WIDTH: tl.constexpr = COLS // 2 if HALVES else COLS
    c = tl.make_tensor_descriptor(c_ptr, [rows, cols], [cols, 1], [ROWS, WIDTH])
    tile_rows, tile_cols = tl.cdiv(rows, ROWS), tl.cdiv(cols, COLS)
    for tile in tl.range(tl.program_id(0), tile_rows * tile_cols, programs, flatten=FLAT):
        tile_row, tile_col = tile_place(tile, tile_rows, tile_cols, GROUP)
        row, col = tile_row * ROWS, tile_col * COLS
        total = tl.zeros((ROWS, COLS), dtype=tl.float32)
        for step in range(tl.cdiv(depth, DEPTH)):
            at = step * DEPTH
            x = a.load([row, at]) if A_BY_ROWS else a.load([at, row]).T
            y = b.load([at, col]) if B_BY_ROWS else b.load([col, at]).T
            total = tl.dot(x, y, total)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(total, (ROWS, 2, WIDTH)), (0, 2, 1)))
            c.store([row, col], left.to(c_ptr.dtype.element_ty))
            c.store([row, col + WIDTH], right.to(c_ptr.dtype.element_ty))
        else:
            c.store([row, col], total.to(c_ptr.dtype.element_ty))


@triton.jit
def tile_place(tile, tile_rows, tile_cols, GROUP: tl.constexpr):
    """The row and column of a tile, in the order of tiles: GROUP rows of tiles, column by column."""
    of_group = GROUP * tile_cols
    first = tile // of_group * GROUP
    height = min(tile_rows - first, GROUP)
    within = tile % of_group
    return first + within % height, within // height


# With pointers -----------------------------------------------------------------------------------------


def launch_pointed(a: Matrix, b: Matrix, c: torch.Tensor, tiles: Tiles, precision: str = "ieee") -> None:
    with same_device(c):
        multiply_pointed[(tiles.number_for(*c.shape),)](
            a.tensor, b.tensor, c, *c.shape, a.tensor.shape[1],
            *((a.step, 1) if a.by_rows else (1, a.step)), *((b.step, 1) if b.by_rows else (1, b.step)),
            tiles.rows, tiles.cols, tiles.depth, tiles.group, precision,
            num_warps=tiles.warps, num_stages=tiles.stages,
        )  # fmt: skip


@triton.jit
def multiply_pointed(
    a_ptr, b_ptr, c_ptr, rows, cols, depth, a_row, a_col, b_row, b_col,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """c = a·b: c is [rows, cols], contiguous; the operands have any strides. A program computes one tile."""
    tile_rows, tile_cols = tl.cdiv(rows, ROWS), tl.cdiv(cols, COLS)
    tile_row, tile_col = tile_place(tl.program_id(0), tile_rows, tile_cols, GROUP)
    row = tile_row.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tile_col.to(tl.int64) * COLS + tl.arange(0, COLS)
    step, far = tl.arange(0, DEPTH).to(tl.int64), tl.full((), DEPTH, tl.int64)
    a_ptr += row[:, None] * a_row + step[None, :] * a_col
    b_ptr += step[:, None] * b_row + col[None, :] * b_col
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for first in range(0, depth, DEPTH):
        left = depth - first
        x = tl.load(a_ptr, mask=(row < rows)[:, None] & (step < left)[None, :], other=0.0)
        y = tl.load(b_ptr, mask=(step < left)[:, None] & (col < cols)[None, :], other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        a_ptr += far * a_col
        b_ptr += far * b_row
    inside = (row < rows)[:, None] & (col < cols)[None, :]
    tl.store(c_ptr + row[:, None] * cols + col[None, :], total.to(c_ptr.dtype.element_ty), mask=inside)
