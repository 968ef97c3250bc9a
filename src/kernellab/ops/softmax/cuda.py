"""Softmax over the last dim in CUDA C++: chooses the kernel of cuda.cu and its launch by the width of a row."""

import functools

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.gpus import has_clusters
from kernellab.ops.layout import last_dim
from kernellab.ops.rows_cuda import power_of_2

WARP_BLOCK = 128  # threads per block if a row takes a warp or less
CLUSTER_BLOCK = 512  # two such blocks share an SM, so that one loads while the other stores
CLUSTER_BLOCKS = 8  # the most that every GPU with clusters supports
LONE_BLOCK = 1024  # without clusters, one block takes as much as it can hold


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
    # Accesses a thread holds of all inputs together: with more, two blocks' registers exceed an SM's.
    vecs = (8 if width > 1 else 16) // len(inputs)

    if cols <= 32 * vecs:
        lanes = min(32, power_of_2(cols))
        vecs = power_of_2(-(-cols // lanes))
        blocks = -(-rows * lanes // WARP_BLOCK)
        kernel(f"{function}_warp<{kind}, {vecs}, {lanes}>")(blocks, WARP_BLOCK, *tensors, rows, cols, *strides)
        return y

    clusters = has_clusters(y.device)
    threads = CLUSTER_BLOCK if clusters else LONE_BLOCK
    team = min(power_of_2(-(-cols // (threads * vecs))), CLUSTER_BLOCKS) if clusters else 1
    in_cluster, cluster = ("true", team) if team > 1 else ("false", None)
    if cols <= team * threads * vecs:
        threads = -(-cols // (team * vecs * 32)) * 32  # no warp without work
        run = kernel(f"{function}_block<{kind}, {vecs}, {in_cluster}>")
    else:
        threads = LONE_BLOCK
        run = kernel(f"{function}_loop<{kind}, {in_cluster}>")
    run(rows, threads, *tensors, cols, *strides, cluster=cluster)  # with a cluster, the grid counts clusters
    return y


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)
