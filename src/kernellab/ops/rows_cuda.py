"""Ops along the last dim in CUDA C++: chooses the kernels of rows.cuh and their launches by the width of a row.

How a row is divided among threads is chosen here for norms and cross-entropy too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernellab.ops.elementwise_cuda import kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.gpus import capability, has_clusters
from kernellab.ops.layout import Grid, last_dim

WARP_BLOCK = 128  # threads per block if a row takes a warp or less; as in rows.cuh
MOST_THREADS = 1024  # of a block; of one that holds two inputs, half of them
# Threads of a block in a cluster: several such blocks share an SM, so that one loads while another stores.
CLUSTER_BLOCK = 512
CLUSTER_BLOCKS = 8  # the most that every GPU with clusters supports


def map_rows_cuda(op: str, functor: str, *inputs: torch.Tensor) -> torch.Tensor:
    """A functor of the op's cuda.cu of every row. The first input may have any strides; a second one is contiguous."""
    require_float(inputs[0], op)
    tensors, grid = last_dim(*inputs)
    y = tensors[-1]
    if grid.rows * grid.cols == 0:
        return y
    access = access_of(tensors, grid)
    accesses = grid.cols // access.width
    kind = f"{functor}, {CUDA_NAMES[y.dtype]}, {access.width}, {cpp_bool(access.aligned)}"
    args = (tensors[0], *grid.strides[0], tensors[-2], y, grid.rows, grid.cols)
    vecs = _accesses_per_thread(accesses, access, len(inputs), y)
    if accesses <= 32 * vecs:
        lanes, vecs = lanes_of(accesses)
        blocks = -(-grid.rows * lanes // WARP_BLOCK)
        kernel(op, f"rows_warp<{kind}, {vecs}, {lanes}>")(blocks, WARP_BLOCK, *args)
        return y

    team, threads = team_of(accesses, vecs, y.device, CLUSTER_BLOCK // len(inputs))
    if threads <= MOST_THREADS // len(inputs):
        run = kernel(op, f"rows_block<{kind}, {vecs}, {cpp_bool(team > 1)}>")
    else:
        threads = MOST_THREADS
        run = kernel(op, f"rows_loop<{kind}, {cpp_bool(team > 1)}>")
    run(grid.rows, threads, *args, cluster=team if team > 1 else None)  # with a cluster, the grid counts clusters
    return y


def _accesses_per_thread(accesses: int, access: Access, inputs: int, y: torch.Tensor) -> int:
    """How many a thread holds of each input: with more, there are too few registers.

    Rows that take several blocks need all that SMs can hold: on an H200 (2026-11-18), softmax of 131072 columns in
    bfloat16 reached 0.97 of copy bandwidth with 8 accesses, and 0.84 with 4."""
    if access.width == 1:
        return 16 // inputs
    if inputs > 1 or accesses <= CLUSTER_BLOCK * 4:
        return 4
    # Code for Blackwell needs more registers beside the row, as do fp32 rows that begin anywhere.
    needs_more = capability(y.device) >= (10, 0) or (y.element_size() == 4 and not access.aligned)
    return 4 if needs_more else 8


class Access(NamedTuple):
    """How rows are read and written: elements per access, and whether the first of every row begins with the row. Else
    the accesses begin with the first element that is aligned to them, and others are taken one at a time."""

    width: int
    aligned: bool

    @property
    def vectors(self) -> bool:
        """Whether every row is a number of whole accesses of 16 bytes."""
        return self.aligned and self.width > 1


def access_of(tensors: Sequence[torch.Tensor], grid: Grid) -> Access:
    """How to access the rows of tensors that lie in memory as `grid` says.

    >>> x = torch.empty(8, 4097)
    >>> access_of([x, x], Grid(8, 4096, ((4096, 1), (4096, 1))))
    Access(width=4, aligned=True)
    >>> access_of([x, x], Grid(8, 4097, ((4097, 1), (4097, 1))))
    Access(width=4, aligned=False)
    >>> access_of([x, x], Grid(8, 4096, ((4097, 1), (4096, 1))))
    Access(width=1, aligned=True)
    """
    row_strides = [row for row, _ in grid.strides]
    width = 16 // tensors[0].element_size()
    if grid.unit_columns:
        if vector_width(tensors, grid.cols, *row_strides) > 1:
            return Access(width, aligned=True)
        # Narrower rows would leave lanes of a warp without an access, or with several extra elements.
        if grid.cols >= 32 * width and _same_offsets(tensors, row_strides, grid.rows):
            return Access(width, aligned=False)
    return Access(1, aligned=True)


def same_alignment(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether the columns of both are neighbours, and every row of x starts at the same offset from a multiple of 16
    bytes as that of y: then `Peeled` of teams.cuh fits both.

    >>> x = torch.empty(4, 9)
    >>> same_alignment(x, torch.empty(4, 9)), same_alignment(x[:, 1:], torch.empty(4, 8)), same_alignment(x, x.t())
    (True, False, False)
    """
    return x.stride(1) == y.stride(1) == 1 and _same_offsets([x, y], [x.stride(0), y.stride(0)], x.shape[0])


def _same_offsets(tensors: Sequence[torch.Tensor], row_strides: Sequence[int], rows: int) -> bool:
    """Whether every row starts at the same offset from a multiple of 16 bytes in all tensors."""
    starts = {t.data_ptr() % 16 for t in tensors}
    steps = {stride * tensors[0].element_size() % 16 for stride in row_strides}
    return len(starts) == 1 and (len(steps) == 1 or rows == 1)


def lanes_of(accesses: int) -> tuple[int, int]:
    """Threads for a narrow row, and accesses of each."""
    lanes = min(32, power_of_2(accesses))
    return lanes, power_of_2(-(-accesses // lanes))


def team_of(accesses: int, vecs: int, device: torch.device, block: int = CLUSTER_BLOCK) -> tuple[int, int]:
    """Blocks for a row of `accesses`, of which a thread holds `vecs`, and threads per block: where these are more than
    MOST_THREADS, the row does not fit. In a cluster, blocks have at most `block`, if they are few enough then."""
    team = 1
    if has_clusters(device):
        team = min(power_of_2(-(-accesses // (block * vecs))), CLUSTER_BLOCKS)
    return team, -(-accesses // (team * vecs * 32)) * 32  # no warp without work


def power_of_2(n: int) -> int:
    """The lowest power of 2 that is not below n; 1 for 0."""
    return 1 << max(n - 1, 0).bit_length()


def cpp_bool(value: bool) -> str:
    return "true" if value else "false"
