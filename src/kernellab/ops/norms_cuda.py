"""Norms along the last dim in CUDA C++: chooses the kernels of norms.cuh and their launches by the width of a row."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.ops.elementwise_cuda import kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.gpus import shared_bytes, sm_count
from kernellab.ops.layout import Grid
from kernellab.ops.norms import NormBackward, NormForward
from kernellab.ops.rows_cuda import MOST_THREADS, power_of_2, team_of

WARP_BLOCK = 128  # threads per block if a row takes a warp or less, as in norms.cuh

# 16-byte accesses that a thread holds: of all inputs together forward, and of each backward, where a warp or less takes
# a row. Accesses of one element need an address each.
VECS, VECS_NARROW = 4, 16
# Backward, where a block or a cluster takes a row: with three accesses or more of each input, fp32 rows spill.
BACKWARD_VECS = 2

# Persistent blocks per SM that certainly fit: further blocks would run after the others, and take twice the time.
WARP_BLOCKS_PER_SM, TEAMS_PER_SM = 4, 8
COLUMN_BLOCK, COLUMN_BLOCKS_PER_SM = 128, 8
SUM_COLS, SUM_ROWS = 32, 16  # as in norms.cuh
MOST_GRID_Y = 65535


class CudaNorm(NamedTuple):
    """A norm whose functor, in the op's cuda.cu, has the name `functor`."""

    op: str
    functor: str
    centred: bool

    def check(self, x: torch.Tensor) -> None:
        require_float(x, self.op)

    def forward(self, p: NormForward) -> None:
        width = _width(p.grid, p.x, p.residual, p.weight, p.bias, p.y, p.total)
        rows, cols = p.grid.rows, p.grid.cols // width
        strides = _strides(p.grid, (True, p.residual is not None), width)
        inputs = 1 if p.residual is None else 2
        kind = f"{self.functor}, {_bool(inputs == 2)}, {CUDA_NAMES[p.x.dtype]}, {width}"
        vecs = (VECS if width > 1 else VECS_NARROW) // inputs
        places = (p.x, *strides[0], _pointer(p.residual), *strides[1])
        rest = (_pointer(t) for t in (p.weight, p.bias, p.y, p.total, p.mean, p.rstd))
        args = (*places, *rest, rows, cols, float(p.eps))
        if cols <= 32 * vecs:
            lanes, vecs = _lanes(cols)
            blocks = -(-rows * lanes // WARP_BLOCK)
            kernel(self.op, f"norm_warp<{kind}, {vecs}, {lanes}>")(blocks, WARP_BLOCK, *args)
            return
        team, threads = team_of(cols, vecs, p.y.device)
        cluster, in_cluster = (team if team > 1 else None), _bool(team > 1)
        if threads <= MOST_THREADS:
            run = kernel(self.op, f"norm_block<{kind}, {vecs}, {in_cluster}>")
        else:
            threads = MOST_THREADS
            run = kernel(self.op, f"norm_loop<{kind}, {in_cluster}>")
        run(rows, threads, *args, cluster=cluster)  # with a cluster, the grid counts clusters

    def backward(self, p: NormBackward) -> None:
        width = _width(p.grid, p.dy, p.x, p.dtotal, p.weight, p.dx)
        rows, cols = p.grid.rows, p.grid.cols // width
        strides = _strides(p.grid, (True, True, p.dtotal is not None), width)
        kind = f"{self.functor}, {CUDA_NAMES[p.x.dtype]}, {width}"
        sms = sm_count(p.dx.device)
        places = (p.dy, *strides[0], p.x, *strides[1], _pointer(p.dtotal), *strides[2])
        given = (*places, *(_pointer(t) for t in (p.weight, p.mean, p.rstd)), p.dx)

        per_element = 8 if self.centred else 4  # bytes of shared memory: sums for the weight, and for the bias
        limit = shared_bytes(p.dx.device) - 1024  # beside static shared memory

        vecs = VECS if width > 1 else VECS_NARROW
        if cols <= 32 * vecs:
            lanes, vecs = _lanes(cols)
            shared = WARP_BLOCK * vecs * width * per_element
            blocks = min(-(-rows * lanes // WARP_BLOCK), min(WARP_BLOCKS_PER_SM, limit // shared) * sms)
            sums = _partial_sums(p, blocks)
            run = kernel(self.op, f"norm_backward_warp<{kind}, {vecs}, {lanes}>")
            run(blocks, WARP_BLOCK, *given, *map(_pointer, sums), rows, cols, shared=shared)
            self._add_up(p, sums, blocks)
            return

        vecs = BACKWARD_VECS if width > 1 else VECS_NARROW
        team, threads = team_of(cols, vecs, p.dx.device)
        shared = threads * vecs * width * per_element
        if threads <= MOST_THREADS and shared <= limit:
            per_sm = max(1, min(TEAMS_PER_SM, MOST_THREADS // threads, limit // shared))
            # Clusters of 4 and more do not fill a GPU whose groups of SMs they do not divide.
            teams = min(rows, (sms if team == 1 else max(1, sms // (2 * team) * 2)) * per_sm)
            sums = _partial_sums(p, teams)
            run = kernel(self.op, f"norm_backward_block<{kind}, {vecs}, {_bool(team > 1)}>")
            args = (*given, *map(_pointer, sums), rows, cols)
            run(teams, threads, *args, shared=shared, cluster=team if team > 1 else None)
            self._add_up(p, sums, teams)
            return

        kernel(self.op, f"norm_backward_loop<{kind}>")(rows, MOST_THREADS, *given, 0, 0, rows, cols)
        if p.dweight is not None or p.dbias is not None:
            across = -(-cols // COLUMN_BLOCK)
            slices = min(max(1, COLUMN_BLOCKS_PER_SM * sms // across), rows, MOST_GRID_Y)
            sums = _partial_sums(p, slices)
            args = (p.dy, *strides[0], p.x, *strides[1], _pointer(p.mean), p.rstd, *map(_pointer, sums), rows, cols)
            kernel(self.op, f"norm_columns<{kind}>")((across, slices), COLUMN_BLOCK, *args)
            self._add_up(p, sums, slices)

    def _add_up(self, p: NormBackward, sums: list[torch.Tensor | None], count: int) -> None:
        """The gradients of the parameters from partial sums [count, columns]."""
        if all(t is None for t in sums):
            return
        blocks = (-(-p.grid.cols // SUM_COLS), 1 if p.dbias is None else 2)
        run = kernel(self.op, f"norm_add_up<{CUDA_NAMES[p.dx.dtype]}>")
        run(blocks, (SUM_COLS, SUM_ROWS), *map(_pointer, (*sums, p.dweight, p.dbias)), count, p.grid.cols)


def _partial_sums(p: NormBackward, count: int) -> list[torch.Tensor | None]:
    """A row for each team; None for a parameter that is not there."""
    return [None if t is None else p.rstd.new_empty(count, p.grid.cols) for t in (p.dweight, p.dbias)]


def _width(grid: Grid, *tensors: torch.Tensor | None) -> int:
    if not grid.unit_columns:
        return 1
    return vector_width([t for t in tensors if t is not None], grid.cols, *(row for row, _ in grid.strides))


def _strides(grid: Grid, given: tuple[bool, ...], width: int) -> list[tuple[int, int]]:
    """Row stride, in accesses, and column stride of each input; 0 for one that is not given."""
    strides = iter(grid.strides)
    pairs = [next(strides) if is_given else (0, 0) for is_given in given]
    return [(row // width, col) for row, col in pairs]


def _lanes(cols: int) -> tuple[int, int]:
    """Threads for a narrow row, and accesses of each."""
    lanes = min(32, power_of_2(cols))
    return lanes, power_of_2(-(-cols // lanes))


def _pointer(tensor: torch.Tensor | None) -> torch.Tensor | int:
    return 0 if tensor is None else tensor


def _bool(value: bool) -> str:
    return "true" if value else "false"
