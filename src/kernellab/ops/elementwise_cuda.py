"""y = f(x) in CUDA C++: launches `map_flat` and `map_rows` of elementwise.cuh, which an op's cuda.cu
instantiates with its functor.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernellab.build.cuda import Kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.layout import elementwise

FLAT_THREADS, ROWS_THREADS, LOADS = 128, 256, 4  # as in elementwise.cuh
# The limit of a grid's y: at most this many blocks share the rows of a column strip.
MAX_GRID_Y = 65535


def map_cuda(x: torch.Tensor, kernel: Callable[[str], Kernel], functor: str, op: str) -> torch.Tensor:
    """f of every element, with the strides that PyTorch would give the result.

    `kernel` returns the op's instantiation by name, for example "map_flat<Square, float, 4>".
    """
    require_float(x, op)
    x, y, size = elementwise(x)
    rows, cols = size.rows, size.cols
    if rows * cols == 0:
        return y
    name = CUDA_NAMES[x.dtype]
    if size.flat:
        width = vector_width(x, y)
        threads = cols // width + cols % width  # one per access, and one per remaining element
        kernel(f"map_flat<{functor}, {name}, {width}>")(-(-threads // FLAT_THREADS), FLAT_THREADS, x, y, cols)
        return y
    width = 1
    if size.x_col == size.y_col == 1:
        width = vector_width(x, y, cols, size.x_row, size.y_row)
    cols, x_row, y_row = cols // width, size.x_row // width, size.y_row // width
    across = min(ROWS_THREADS, 1 << (cols - 1).bit_length())  # short rows share a block
    down = ROWS_THREADS // across
    grid = (-(-cols // across), min(-(-rows // (down * LOADS)), MAX_GRID_Y))
    kernel(f"map_rows<{functor}, {name}, {width}>")(
        grid, (across, down), x, y, rows, cols, x_row, size.x_col, y_row, size.y_col
    )
    return y
