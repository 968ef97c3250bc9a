"""Softmax over the last dim in CUDA C++: chooses the kernel of cuda.cu and its launch by the width of a row."""

import functools

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.gpus import capability
from kernellab.ops.layout import last_dim
from kernellab.ops.rows_cuda import MOST_THREADS, power_of_2, team_of

WARP_BLOCK = 128  # threads per block if a row takes a warp or less


def map_rows_cuda(op: str, function: str, *inputs: torch.Tensor) -> torch.Tensor:
    """The kernels `function`_warp, _block or _loop of cuda.cu on every row. The first input may have any strides; a
    second one is contiguous."""
    require_float(inputs[0], op)
    tensors, grid = last_dim(*inputs)
    y = tensors[-1]
    rows, cols, ((row, col), *_) = grid
    if rows * cols == 0:
        return y
    width = vector_width(tensors, cols, row) if col == 1 else 1
    kind = f"{CUDA_NAMES[y.dtype]}, {width}"
    # From here on, everything is counted in accesses of `width` elements.
    cols, strides = cols // width, (row // width, col)
    vecs = _accesses(width, len(inputs), y)

    if cols <= 32 * vecs:
        lanes = min(32, power_of_2(cols))
        vecs = power_of_2(-(-cols // lanes))
        blocks = -(-rows * lanes // WARP_BLOCK)
        kernel(f"{function}_warp<{kind}, {vecs}, {lanes}>")(blocks, WARP_BLOCK, *tensors, rows, cols, *strides)
        return y

    team, threads = team_of(cols, vecs, y.device)
    in_cluster, cluster = ("true", team) if team > 1 else ("false", None)
    if threads <= MOST_THREADS:
        run = kernel(f"{function}_block<{kind}, {vecs}, {in_cluster}>")
    else:
        threads = MOST_THREADS
        run = kernel(f"{function}_loop<{kind}, {in_cluster}>")
    run(rows, threads, *tensors, cols, *strides, cluster=cluster)  # with a cluster, the grid counts clusters
    return y


def _accesses(width: int, inputs: int, y: torch.Tensor) -> int:
    """How many a thread holds of each input: with more, 1024 threads need more registers than an SM has."""
    if width == 1:
        return 16 // inputs
    # Code for Blackwell needs more registers beside the row.
    return 8 if inputs == 1 and y.element_size() == 2 and capability(y.device) < (10, 0) else 4 // inputs


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)
