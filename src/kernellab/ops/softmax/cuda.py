"""Softmax over the last dim in CUDA C++: chooses the kernel of cuda.cu and its launch by the width of a row."""

import functools

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.layout import last_dim

WARP_BLOCK = 128  # threads per block if a row takes a warp or less
CLUSTER_BLOCK = 512  # two such blocks share an SM, so that one loads while the other stores
CLUSTER_BLOCKS = 8  # the most that every GPU with clusters supports
LONE_BLOCK = 1024  # without clusters, one block takes as much as it can hold


def softmax_cuda(x: torch.Tensor) -> torch.Tensor:
    require_float(x, "softmax")
    (x, y), grid = last_dim(x)
    rows, cols, ((x_row, x_col), _) = grid
    if rows * cols == 0:
        return y
    width = vector_width([x, y], cols, x_row) if x_col == 1 else 1
    kind = f"{CUDA_NAMES[x.dtype]}, {width}"
    # From here on, everything is counted in accesses of `width` elements.
    cols, strides = cols // width, (x_row // width, x_col)
    vecs = 8 if width > 1 else 16  # accesses a thread holds: with more, two blocks' registers exceed an SM's

    if cols <= 32 * vecs:
        lanes = min(32, _power_of_2(cols))
        vecs = _power_of_2(-(-cols // lanes))
        blocks = -(-rows * lanes // WARP_BLOCK)
        kernel(f"softmax_warp<{kind}, {vecs}, {lanes}>")(blocks, WARP_BLOCK, x, y, rows, cols, *strides)
        return y

    clusters = _has_clusters(x.device)
    threads = CLUSTER_BLOCK if clusters else LONE_BLOCK
    team = min(_power_of_2(-(-cols // (threads * vecs))), CLUSTER_BLOCKS) if clusters else 1
    in_cluster, cluster = ("true", team) if team > 1 else ("false", None)
    if cols <= team * threads * vecs:
        threads = -(-cols // (team * vecs * 32)) * 32  # no warp without work
        run = kernel(f"softmax_block<{kind}, {vecs}, {in_cluster}>")
    else:
        threads = LONE_BLOCK
        run = kernel(f"softmax_loop<{kind}, {in_cluster}>")
    run(rows, threads, x, y, cols, *strides, cluster=cluster)  # with a cluster, the grid counts clusters
    return y


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)


@functools.cache
def _has_clusters(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def _power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()
