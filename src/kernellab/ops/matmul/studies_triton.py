"""Matmul in Triton with one program per tile, as tutorials write it."""

import torch

from kernellab.ops.floats import require_float
from kernellab.ops.matmul.matrices import Matrix, new_product
from kernellab.ops.matmul.triton import POINTED, Tiles, choose, launch_pointed

TF32_TILES = Tiles(128, 128, 32, 3, 8)


def one_tile_each(a: torch.Tensor, b: torch.Tensor, *, group: int) -> torch.Tensor:
    """a·b of contiguous matrices. Programs that follow each other take `group` rows of tiles, column by column."""
    require_float(a, "matmul")
    c = new_product(a, b)
    if c.numel():
        launch_pointed(*by_rows(a, b), c, choose(POINTED, c)._replace(group=group))
    return c


def in_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same on tensor cores, which cut the operands to tf32."""
    c = new_product(a, b)
    if c.numel():
        launch_pointed(*by_rows(a, b), c, TF32_TILES, "tf32")
    return c


def by_rows(a: torch.Tensor, b: torch.Tensor) -> tuple[Matrix, Matrix]:
    return Matrix(a, True, a.shape[1]), Matrix(b, True, b.shape[1])
