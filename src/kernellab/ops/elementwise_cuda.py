"""Elementwise ops in CUDA C++: launches `map_flat` and `map_rows` of elementwise.cuh, which an op's cuda.cu
instantiates with its functor.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import torch

from kernellab.build import cuda
from kernellab.build.cuda import Kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.layout import elementwise
from kernellab.ops.philox import Stream

FLAT_THREADS, ROWS_THREADS, LOADS = 128, 256, 4  # as in elementwise.cuh
# The limit of a grid's y: at most this many blocks share the rows of a column strip.
MAX_GRID_Y = 65535


def map_cuda(
    op: str,
    functor: str,
    *inputs: torch.Tensor,
    outputs: int = 1,
    stream: Stream | None = None,
    parameters: Sequence[int | float] = (),
) -> list[torch.Tensor]:
    """A functor of the op's cuda.cu of every element. The outputs have the strides that PyTorch gives them.

    `stream`: the random words of a functor that takes them; its results may need `layout.reorder`. `parameters`: what
    the functor is made from.
    """
    require_float(inputs[0], op)
    tensors, grid = elementwise(*inputs, outputs=outputs, indexed=stream is not None)
    results = tensors[len(inputs) :]
    if grid.rows * grid.cols == 0:
        return results
    name = CUDA_NAMES[inputs[0].dtype]
    constants = [*(() if stream is None else stream.as_int64()), *parameters]
    types = ["double" if isinstance(constant, float) else "long long" for constant in constants]
    if grid.flat:
        width = vector_width(tensors)
        threads = grid.cols // width + grid.cols % width  # one per access, and one per remaining element
        args = ", ".join([*[f"{name}*"] * len(tensors), *types])
        run = kernel(op, f"map_flat<{functor}, {name}, {width}, {args}>")
        run(-(-threads // FLAT_THREADS), FLAT_THREADS, grid.cols, *tensors, *constants)
        return results
    width = vector_width(tensors, grid.cols, *(row for row, _ in grid.strides)) if grid.unit_columns else 1
    cols = grid.cols // width
    across = min(ROWS_THREADS, 1 << (cols - 1).bit_length())  # short rows share a block
    down = ROWS_THREADS // across
    blocks = (-(-cols // across), min(-(-grid.rows // (down * LOADS)), MAX_GRID_Y))
    starts = tensors if stream is None else [*tensors, 0]  # the indices have no memory
    places = list(zip(starts, grid.strides, strict=True))
    args = ", ".join([*[f"{name}*, long long, long long"] * len(places), *types])
    values = [arg for start, (row, col) in places for arg in (start, row // width, col)]
    run = kernel(op, f"map_rows<{functor}, {name}, {width}, {args}>")
    run(blocks, (across, down), grid.rows, cols, *values, *constants)
    return results


@functools.cache
def kernel(op: str, name: str) -> Kernel:
    """An instantiation, for example "map_flat<Square, float, 4, float*, float*>"."""
    return cuda.kernel(Path(__file__).parent / op / "cuda.cu", name)
