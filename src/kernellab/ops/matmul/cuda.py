"""Matmul in CUDA C++: chooses the kernel of cuda.cu and its tiles by the dtype, the GPU and the sizes."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.floats import CUDA_NAMES, require_float
from kernellab.ops.gpus import capability, shared_bytes, sm_count
from kernellab.ops.matmul.matrices import Matrix, as_matrix, new_product

FMA_THREADS = 256  # as in fma.cuh
FMA_LINES = (128, 64)
TILE_DEPTH_BYTES = 128  # as in tensor_tiles.cuh


class Tiles(NamedTuple):
    """A block computes rows × cols results, each of its warps warp_rows × warp_cols."""

    rows: int
    cols: int
    warp_rows: int
    warp_cols: int

    @property
    def threads(self) -> int:
        return self.rows // self.warp_rows * (self.cols // self.warp_cols) * 32

    @property
    def stage_bytes(self) -> int:
        return (self.rows + self.cols) * TILE_DEPTH_BYTES

    def number_for(self, rows: int, cols: int) -> int:
        return -(-rows // self.rows) * -(-cols // self.cols)


# The first of which every SM gets one is taken, else the last: larger tiles fetch less from L2 per product.
TENSOR_TILES = (Tiles(128, 256, 64, 64), Tiles(128, 128, 64, 32), Tiles(64, 64, 32, 32))
MOST_STAGES = 4  # no more are needed to hide the latency of memory


def multiply(a: torch.Tensor, b: torch.Tensor, *, tf32: bool = False) -> torch.Tensor:
    require_float(a, "matmul")
    c = new_product(a, b)
    if not c.numel():
        return c
    if not a.shape[1]:
        return c.zero_()
    first, second = as_matrix(a), as_matrix(b)
    if (tf32 or a.dtype != torch.float32) and capability(a.device) >= (8, 0):
        _launch_tensor(first, second, c)
    else:
        _launch_fma(first, second, c)
    return c


def _launch_tensor(a: Matrix, b: Matrix, c: torch.Tensor) -> None:
    sms = sm_count(c.device)
    tiles = next((tiles for tiles in TENSOR_TILES if tiles.number_for(*c.shape) >= sms), TENSOR_TILES[-1])
    stages = min(MOST_STAGES, shared_bytes(c.device) // tiles.stage_bytes)
    kind = ", ".join(map(str, (CUDA_NAMES[c.dtype], *tiles, stages)))
    run = kernel(f"matmul_tensor<{kind}, {layouts(a, b)}>")
    run(tiles.number_for(*c.shape), tiles.threads, *arguments(a, b, c), shared=stages * tiles.stage_bytes)


def _launch_fma(a: Matrix, b: Matrix, c: torch.Tensor) -> None:
    sms = sm_count(c.device)
    squares = [Tiles(lines, lines, 0, 0) for lines in FMA_LINES]
    tiles = next((tiles for tiles in squares if tiles.number_for(*c.shape) >= sms), squares[-1])
    run = kernel(f"matmul_fma<{CUDA_NAMES[c.dtype]}, {tiles.rows}, {layouts(a, b)}>")
    run(tiles.number_for(*c.shape), FMA_THREADS, *arguments(a, b, c))


def layouts(a: Matrix, b: Matrix) -> str:
    """Whether the lines of each operand, rows of a and columns of b, are contiguous, and whether they are aligned."""
    return ", ".join(str(value).lower() for value in (a.by_rows, not b.by_rows, a.aligned, b.aligned))


def arguments(a: Matrix, b: Matrix, c: torch.Tensor) -> tuple[torch.Tensor | int, ...]:
    return (a.tensor, a.step, b.tensor, b.step, c, *c.shape, a.tensor.shape[1])


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)
