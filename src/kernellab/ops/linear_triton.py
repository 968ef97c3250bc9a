"""x·Wᵀ in Triton, tile by tile on tensor cores: for ops that compute something of the products before they store it.

x is [rows, depth] and W [cols, depth], both with neighbouring elements in memory along the depth. Sums are fp32. A tile
is read through TMA descriptors where the GPU has them and the memory is aligned to 16 bytes, else through pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernellab.ops.gpus import capability, shared_bytes


class Tiles(NamedTuple):
    """How a product is divided: the tile of a program, how many elements of the depth it multiplies at a time, and how
    many of these are being read while others are multiplied.

    `group`: row tiles that are computed at the same time, and so read the same rows of W from L2. `per_sm`: programs
    per SM, which go through the tiles together; 0: a program for each tile. `halves`: a tile is stored in two halves,
    which takes half the shared memory.
    """

    rows: int
    cols: int
    depth: int
    warps: int
    stages: int
    group: int = 8
    per_sm: int = 0
    halves: bool = False

    def shared_bytes(self, element_size: int, *, stores: bool) -> int:
        """What a program needs that reads tiles through descriptors, and stores them so if it `stores` any."""
        read = self.stages * (self.rows + self.cols) * self.depth
        stored = self.rows * self.cols // (2 if self.halves else 1) if stores else 0
        return element_size * (read + stored)


# By the arithmetic of the products, see `arithmetic`: (tiles of 128 × 128 in the result up to, how it is divided).
TilesTable: TypeAlias = Mapping[str, Sequence[tuple[int | None, Tiles]]]
# Without descriptors, or where there is too little shared memory for what a table says. Not measured.
OTHER_TILES = {
    "16-bit": Tiles(128, 128, 32, 8, 4),
    "tf32": Tiles(128, 64, 32, 4, 3),
    "ieee": Tiles(64, 64, 16, 4, 3),
}


def choose_tiles(table: TilesTable, x: torch.Tensor, weight: torch.Tensor, *, tma: bool, stores: bool) -> Tiles:
    """How to divide x·Wᵀ, of which a program stores its tile if it `stores` any."""
    count = triton.cdiv(x.shape[0], 128) * triton.cdiv(weight.shape[0], 128)
    kind = arithmetic(x)
    tiles = next(tiles for limit, tiles in table[kind] if limit is None or count <= limit)
    fits = tma and tiles.shared_bytes(x.element_size(), stores=stores) <= shared_bytes(x.device)
    return tiles if fits else OTHER_TILES[kind]


def has_descriptors(*matrices: torch.Tensor) -> bool:
    """Whether TMA can read and write all these matrices."""
    return capability(matrices[0].device) >= (9, 0) and all(
        x.numel() > 0
        and x.data_ptr() % 16 == 0
        and x.stride(1) == 1
        and x.stride(0) * x.element_size() % 16 == 0
        and x.stride(0) >= x.shape[1]
        for x in matrices
    )


def described(x: torch.Tensor, rows: int, cols: int) -> TensorDescriptor:
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [rows, cols])


def arithmetic(x: torch.Tensor) -> str:
    """How products are computed: of 16 bits exactly; of float32 as PyTorch's own, in `tf32` or in `ieee` float32."""
    if x.element_size() == 2:
        return "16-bit"
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def precision(x: torch.Tensor) -> str:
    """The same for `multiply_tile`."""
    return "tf32" if arithmetic(x) == "tf32" else "ieee"


@triton.jit
def tile_place(tile, row_tiles, col_tiles, GROUP: tl.constexpr):
    """The row and the column of a tile, counted in tiles: columns of GROUP tiles, one after the other."""
    per_group = GROUP * col_tiles
    first = tile // per_group * GROUP
    height = tl.minimum(row_tiles - first, GROUP)
    within = tile % per_group
    return first + within % height, within // height


@triton.jit
def multiply_tile(
    x, w, row, col, rows, cols, depth, x_row, w_row,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
    TMA: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The products of the ROWS rows of x from `row` on and the COLS rows of w from `col` on, in fp32.

    x and w are descriptors with TMA, else pointers; x_row and w_row are strides. Beyond the last row the products have
    no meaning. EVEN: DEPTH divides the depth.
    """
    sums = tl.zeros([ROWS, COLS], tl.float32)
    if TMA:
        for start in range(0, depth, DEPTH):
            sums = tl.dot(x.load([row, start]), w.load([col, start]).T, sums, input_precision=PRECISION)
    else:
        at = tl.arange(0, DEPTH)[None, :]
        x_rows = row + tl.arange(0, ROWS)
        w_rows = col + tl.arange(0, COLS)
        # Rows that do not exist: the first one is read in their place.
        x_from = x + tl.where(x_rows < rows, x_rows, 0).to(tl.int64)[:, None] * x_row + at
        w_from = w + tl.where(w_rows < cols, w_rows, 0).to(tl.int64)[:, None] * w_row + at
        for start in range(0, depth, DEPTH):
            if EVEN:
                a, b = tl.load(x_from), tl.load(w_from)
            else:
                inside = at < depth - start
                a, b = tl.load(x_from, mask=inside, other=0.0), tl.load(w_from, mask=inside, other=0.0)
            sums = tl.dot(a, b.T, sums, input_precision=PRECISION)
            x_from += DEPTH
            w_from += DEPTH
    return sums


@triton.jit
def halves_of(tile, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The left and the right half of a tile."""
    return tl.split(tl.permute(tl.reshape(tile, (ROWS, 2, COLS // 2)), (0, 2, 1)))
