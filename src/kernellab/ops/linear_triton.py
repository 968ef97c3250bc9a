"""x·Wᵀ in Triton, tile by tile on tensor cores: for ops that compute something of the products before they store it.

x is [rows, depth] and W [cols, depth], both with neighbouring elements in memory along the depth. Sums are fp32. A tile
is read through TMA descriptors where the GPU has them and the memory is aligned to 16 bytes, else through pointers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernellab.ops.gpus import capability


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


def precision(x: torch.Tensor) -> str:
    """How products of float32 are computed: as PyTorch's own are. 16-bit products are exact."""
    reduced = x.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if reduced else "ieee"


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

    x and w are descriptors with TMA, else pointers; x_row and w_row are strides. Beyond the last row the products are of
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
