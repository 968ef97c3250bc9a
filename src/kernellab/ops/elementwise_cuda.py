"""Elementwise ops in CUDA C++: launches `map_flat` and `map_rows` of elementwise.cuh, which an op's cuda.cu
instantiates with its functor.
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch

from kernellab.build import cuda
from kernellab.build.cuda import Kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.layout import elementwise

FLAT_THREADS, ROWS_THREADS, LOADS = 128, 256, 4  # as in elementwise.cuh
# The limit of a grid's y: at most this many blocks share the rows of a column strip.
MAX_GRID_Y = 65535


def map_cuda(op: str, functor: str, *inputs: torch.Tensor, outputs: int = 1) -> list[torch.Tensor]:
    """A functor of the op's cuda.cu of every element. The outputs have the strides that PyTorch gives them."""
    require_float(inputs[0], op)
    tensors, grid = elementwise(*inputs, outputs=outputs)
    results = tensors[len(inputs) :]
    if grid.rows * grid.cols == 0:
        return results
    name = CUDA_NAMES[inputs[0].dtype]
    if grid.flat:
        width = vector_width(tensors)
        threads = grid.cols // width + grid.cols % width  # one per access, and one per remaining element
        pointers = ", ".join([f"{name}*"] * len(tensors))
        run = kernel(op, f"map_flat<{functor}, {name}, {width}, {pointers}>")
        run(-(-threads // FLAT_THREADS), FLAT_THREADS, grid.cols, *tensors)
        return results
    row_strides = [row for row, _ in grid.strides]
    width = vector_width(tensors, grid.cols, *row_strides) if grid.unit_columns else 1
    cols = grid.cols // width
    across = min(ROWS_THREADS, 1 << (cols - 1).bit_length())  # short rows share a block
    down = ROWS_THREADS // across
    blocks = (-(-cols // across), min(-(-grid.rows // (down * LOADS)), MAX_GRID_Y))
    places = ", ".join([f"{name}*, long long, long long"] * len(tensors))
    args = [arg for t, (row, col) in zip(tensors, grid.strides, strict=True) for arg in (t, row // width, col)]
    kernel(op, f"map_rows<{functor}, {name}, {width}, {places}>")(blocks, (across, down), grid.rows, cols, *args)
    return results


@functools.cache
def kernel(op: str, name: str) -> Kernel:
    """An instantiation, for example "map_flat<Square, float, 4, float*, float*>"."""
    return cuda.kernel(Path(__file__).parent / op / "cuda.cu", name)
