"""Norms along the last dim in CUDA C++: chooses the kernels of norms.cuh and their launches by the width of a row."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.ops.elementwise_cuda import kernel
from kernellab.ops.floats import CUDA_NAMES, require_float
from kernellab.ops.gpus import has_clusters, shared_bytes, sm_count
from kernellab.ops.layout import Grid
from kernellab.ops.norms import NormBackward, NormForward
from kernellab.ops.pipeline_cuda import divide
from kernellab.ops.rows_cuda import (
    CLUSTER_BLOCK,
    CLUSTER_BLOCKS,
    MOST_THREADS,
    WARP_BLOCK,
    Access,
    access_of,
    cpp_bool,
    lanes_of,
    power_of_2,
    team_of,
)

# 16-byte accesses that a thread holds of each input; backward, where a warp or less takes a row. Accesses of one
# element need an address each: of them, all inputs together forward.
VECS, VECS_NARROW = 4, 16
# Backward, where a block or a cluster takes a row: with three accesses or more of each input, fp32 rows spill.
BACKWARD_VECS = 2

# Persistent blocks per SM that certainly fit: further blocks would run after the others, and take twice the time.
WARP_BLOCKS_PER_SM, TEAMS_PER_SM = 4, 8
COLUMN_BLOCK, COLUMN_BLOCKS_PER_SM = 128, 8
SUM_COLS, SUM_ROWS, SHIFT_BLOCK = 32, 16, 256  # as in norms_backward.cuh and norms_forward.cuh
MOST_GRID_Y = 65535
# Rows that begin anywhere need copies of the parameters, as large as `width` rows: worthwhile for so many times more.
ROWS_PER_COPY = 8

# Threads of a block that holds a slice of a row in shared memory, as in norms_forward.cuh, and accesses of that slice:
# so many that an SM has room for several blocks.
SLICE_BLOCK, SLICE = 256, 2048
SLICE_STATIC_BYTES = 3072  # of shared memory, beside the slices: barriers, and messages

# Accesses in a row from which on, backward, blocks stay and fetch the next rows early: on an H200, 2026-11-16.
CENTRED_FROM, PLAIN_FROM = 512, 1024


class CudaNorm(NamedTuple):
    """A norm whose functor, in the op's cuda.cu, has the name `functor`."""

    op: str
    functor: str
    centred: bool

    def check(self, x: torch.Tensor) -> None:
        require_float(x, self.op)

    def forward(self, p: NormForward) -> None:
        access = _access((p.x, p.residual, p.y, p.total), (p.weight, p.bias), p.grid)
        rows, cols, accesses = p.grid.rows, p.grid.cols, p.grid.cols // access.width
        strides = _strides(p.grid, (True, p.residual is not None))
        inputs = 1 if p.residual is None else 2
        if access.vectors and accesses > CLUSTER_BLOCK * VECS and self._in_slices(p, access):
            return
        kind = f"{self.functor}, {cpp_bool(inputs == 2)}, {_kind(p.x, access)}"
        vecs = VECS if access.width > 1 else VECS_NARROW // inputs
        places = (p.x, *strides[0], _pointer(p.residual), *strides[1])
        parameters = self._parameters(access, cols, p.weight, p.bias)
        rest = (_pointer(t) for t in (p.y, p.total, p.mean, p.rstd))
        args = (*places, *parameters, *rest, rows, cols, float(p.eps))
        if accesses <= 32 * vecs:
            lanes, vecs = lanes_of(accesses)
            blocks = -(-rows * lanes // WARP_BLOCK)
            kernel(self.op, f"norm_warp<{kind}, {vecs}, {lanes}>")(blocks, WARP_BLOCK, *args)
            return
        team, threads = team_of(accesses, vecs, p.y.device)
        cluster, in_cluster = (team if team > 1 else None), cpp_bool(team > 1)
        # With accesses of one element, more threads would not have enough registers.
        if threads <= (MOST_THREADS if access.width > 1 else CLUSTER_BLOCK):
            most = CLUSTER_BLOCK if threads <= CLUSTER_BLOCK else MOST_THREADS
            run = kernel(self.op, f"norm_block<{kind}, {vecs}, {in_cluster}, {most}>")
        else:
            threads = MOST_THREADS
            run = kernel(self.op, f"norm_loop<{kind}, {in_cluster}>")
        run(rows, threads, *args, cluster=cluster)  # with a cluster, the grid counts clusters

    def backward(self, p: NormBackward) -> None:
        access = _access((p.dy, p.x, p.dtotal, p.dx), (p.weight,), p.grid)
        rows, cols, accesses = p.grid.rows, p.grid.cols, p.grid.cols // access.width
        strides = _strides(p.grid, (True, True, p.dtotal is not None))
        kind = f"{self.functor}, {_kind(p.x, access)}"
        sms = sm_count(p.dx.device)
        pipelined_from = CENTRED_FROM if self.centred else PLAIN_FROM
        if access.vectors and accesses >= pipelined_from and self._pipelined_backward(p, access):
            return
        places = (p.dy, *strides[0], p.x, *strides[1], _pointer(p.dtotal), *strides[2])
        given = (*places, *self._parameters(access, cols, p.weight), _pointer(p.mean), p.rstd, p.dx)

        per_element = 8 if self.centred else 4  # bytes of shared memory: sums for the weight, and for the bias
        limit = shared_bytes(p.dx.device) - 1024  # beside static shared memory

        vecs = VECS if access.width > 1 else VECS_NARROW
        if accesses <= 32 * vecs:
            lanes, vecs = lanes_of(accesses)
            shared = WARP_BLOCK * _elements(vecs, access) * per_element
            most_blocks = min(WARP_BLOCKS_PER_SM, limit // shared) * sms
            blocks = _same_columns(-(-rows * lanes // WARP_BLOCK), most_blocks, access)
            sums = _partial_sums(p, blocks)
            run = kernel(self.op, f"norm_backward_warp<{kind}, {vecs}, {lanes}>")
            run(blocks, WARP_BLOCK, *given, *map(_pointer, sums), rows, cols, shared=shared)
            self._add_up(p, sums, blocks)
            return

        vecs = BACKWARD_VECS if access.width > 1 else VECS_NARROW
        team, threads = team_of(accesses, vecs, p.dx.device)
        shared = threads * _elements(vecs, access) * per_element
        if threads <= MOST_THREADS and shared <= limit:
            per_sm = max(1, min(TEAMS_PER_SM, MOST_THREADS // threads, limit // shared))
            # Clusters of 4 and more do not fill a GPU whose groups of SMs they do not divide.
            teams = _same_columns(rows, (sms if team == 1 else max(1, sms // (2 * team) * 2)) * per_sm, access)
            sums = _partial_sums(p, teams)
            run = kernel(self.op, f"norm_backward_block<{kind}, {vecs}, {cpp_bool(team > 1)}>")
            args = (*given, *map(_pointer, sums), rows, cols)
            run(teams, threads, *args, shared=shared, cluster=team if team > 1 else None)
            self._add_up(p, sums, teams)
            return

        kernel(self.op, f"norm_backward_loop<{kind}>")(rows, MOST_THREADS, *given, 0, 0, rows, cols)
        if p.dweight is not None or p.dbias is not None:
            extras = 0 if access.aligned else 2 * access.width  # columns that a thread each has beside the accesses
            across = -(-(accesses + extras) // COLUMN_BLOCK)
            most_slices = min(max(1, COLUMN_BLOCKS_PER_SM * sms // across), MOST_GRID_Y)
            slices = _same_columns(rows, most_slices, access)
            sums = _partial_sums(p, slices)
            args = (p.dy, *strides[0], p.x, *strides[1], _pointer(p.mean), p.rstd, *map(_pointer, sums), rows, cols)
            kernel(self.op, f"norm_columns<{kind}>")((across, slices), COLUMN_BLOCK, *args)
            self._add_up(p, sums, slices)

    def _in_slices(self, p: NormForward, access: Access) -> bool:
        """Forward, with rows in shared memory; whether the GPU and the width of rows allow it."""
        accesses = p.grid.cols // access.width
        team = power_of_2(-(-accesses // SLICE))
        slices = (1 if p.residual is None else 2) + (not self.centred)  # of x, the residual, and the weight
        shared = slices * -(-accesses // team) * 16
        fits = shared <= shared_bytes(p.y.device) - SLICE_STATIC_BYTES
        if not has_clusters(p.y.device) or team > CLUSTER_BLOCKS or not fits:
            return False
        kind = f"{self.functor}, {cpp_bool(p.residual is not None)}, {CUDA_NAMES[p.x.dtype]}, {access.width}"
        (x_row, _), (r_row, _) = _strides(p.grid, (True, p.residual is not None))
        rest = map(_pointer, (p.weight, p.bias, p.y, p.total, p.mean, p.rstd))
        args = (p.x, x_row, _pointer(p.residual), r_row, *rest, p.grid.cols, float(p.eps))
        kernel(self.op, f"norm_slices<{kind}>")(p.grid.rows, SLICE_BLOCK, *args, shared=shared, cluster=team)
        return True

    def _pipelined_backward(self, p: NormBackward, access: Access) -> bool:
        """Whether the GPU and the width of rows allow it."""
        rows, cols = p.grid.rows, p.grid.cols
        division = divide(rows, cols // access.width, p.dx.device, centred=self.centred)
        if division is None:
            return False
        adds, in_cluster = cpp_bool(p.dtotal is not None), cpp_bool(division.blocks > 1)
        kind = f"{adds}, {CUDA_NAMES[p.x.dtype]}, {access.width}, {division.vecs}, {in_cluster}"
        run = kernel(self.op, f"norm_backward_pipeline<{self.functor}, {kind}>")
        teams = division.teams(run)
        sums = _partial_sums(p, teams)
        (dy_row, _), (x_row, _), (up_row, _) = _strides(p.grid, (True, True, p.dtotal is not None))
        inputs = (p.dy, dy_row, p.x, x_row, _pointer(p.dtotal), up_row)
        rest = map(_pointer, (p.weight, p.mean, p.rstd, p.dx, *sums))
        division.launch(run, *inputs, *rest, rows, cols)
        self._add_up(p, sums, teams)
        return True

    def _parameters(self, access: Access, cols: int, *parameters: torch.Tensor | None) -> list[torch.Tensor | int]:
        """Pointers to parameters, or to their copies, and the distance between copies of one."""
        if access.aligned:
            return [*map(_pointer, parameters), 0]
        row = -(-cols // access.width) * access.width
        pointers: list[torch.Tensor | int] = []
        for parameter in parameters:
            if parameter is None:
                pointers.append(0)
                continue
            copies = parameter.new_empty(access.width, row)
            run = kernel(self.op, f"norm_shift<{CUDA_NAMES[parameter.dtype]}>")
            run((-(-cols // SHIFT_BLOCK), access.width), SHIFT_BLOCK, parameter, copies, cols, row)
            pointers.append(copies)
        return [*pointers, row]

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


def _access(
    tensors: tuple[torch.Tensor | None, ...], parameters: tuple[torch.Tensor | None, ...], grid: Grid
) -> Access:
    """How to access rows: as aligned rows only if the parameters are aligned too."""
    access = access_of([t for t in tensors if t is not None], grid)
    if access.aligned:
        parameters_fit = all(t is None or t.data_ptr() % 16 == 0 for t in parameters)
        return access if parameters_fit else Access(1, aligned=True)
    return access if grid.rows >= ROWS_PER_COPY * access.width else Access(1, aligned=True)


def _kind(x: torch.Tensor, access: Access) -> str:
    return f"{CUDA_NAMES[x.dtype]}, {access.width}, {cpp_bool(access.aligned)}"


def _elements(vecs: int, access: Access) -> int:
    """Of a row, that a thread has: those of its accesses, and one of those beside them."""
    return vecs * access.width + (not access.aligned)


def _same_columns(needed: int, most: int, access: Access) -> int:
    """How many blocks or teams share the rows: at most `most`, and so many that each has the same columns in all its
    rows. Rows that begin anywhere do so at the same offset as the row `width` before."""
    if needed <= most or access.aligned:
        return min(needed, most)
    return max(1, most // access.width) * access.width


def _strides(grid: Grid, given: tuple[bool, ...]) -> list[tuple[int, int]]:
    """Row and column stride of each input; 0 for one that is not given."""
    strides = iter(grid.strides)
    return [next(strides) if is_given else (0, 0) for is_given in given]


def _pointer(tensor: torch.Tensor | None) -> torch.Tensor | int:
    return 0 if tensor is None else tensor
