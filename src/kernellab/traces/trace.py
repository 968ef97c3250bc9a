"""A trace as one table: what ran where, from when to when, and which call launched what.

PyTorch's profiler and Nsight Systems write different files. Both are read into these columns, so each analysis is
written once. Times are whole nanoseconds since the first event. Rows are sorted by lane, then by time; an outer row
comes before the rows inside it. Information beyond the columns is in `details`, stored once per distinct content.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kernellab.base.json import JsonObject
from kernellab.traces.row_details import RowDetails

Column = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]  # positions in a table
Mask = npt.NDArray[np.bool_]

NONE = -1  # no such row
MATCHED_CHARACTERS = 4096  # patterns match only within the first characters of a name


class Kind(enum.IntEnum):
    """What a row records. The last three take GPU time; all others except `GPU_RANGE` take a thread's time."""

    OTHER = 0
    OPERATOR = 1  # a torch operator (aten::mm) or a node of autograd
    RANGE = 2  # a span the program named: record_function, NVTX
    MODULE = 3  # a call of an nn.Module
    PYTHON = 4  # a call of a Python function
    CALL = 5  # a call of CUDA's runtime or driver
    GPU_RANGE = 6  # a range projected onto the GPU: from its first kernel to its last
    WAIT = 7  # a synchronisation as the GPU's clock recorded it
    KERNEL = 8
    COPY = 9
    FILL = 10


ON_GPU = (Kind.KERNEL, Kind.COPY, Kind.FILL)


@dataclass(frozen=True)
class Lane:
    """A thread of a process, or a stream of a GPU."""

    process: str
    name: str
    device: int | None = None  # set for a stream
    stream: int | None = None

    @property
    def on_gpu(self) -> bool:
        return self.device is not None


@dataclass(frozen=True)
class Memory:
    """Allocations and frees in order of time. `device` is -1 for host memory."""

    at: Column
    bytes: Column  # negative: freed
    total: Column  # bytes allocated after the event
    device: Column
    address: Column
    lane: Column


@dataclass(frozen=True)
class Trace:
    kind: Column
    begin: Column
    duration: Column
    lane: Column
    name: Column
    link: Column  # the same number for a call and what it launched on the GPU; 0: none
    sequence: Column  # the same number for an operator and its backward; 0: none
    detail: Column
    parent: Rows  # the row around it in its lane
    names: list[str]
    lanes: list[Lane]
    details: Sequence[RowDetails]  # the first is empty
    memory: Memory
    source: str  # `kineto`, `nsys`
    zero_ns: int = 0  # time 0 on the wall clock, if known; it aligns the traces of several processes
    metadata: JsonObject = field(default_factory=dict)  # what the file says about the recording: GPUs, rank, versions
    notes: list[str] = field(default_factory=list)  # sentences about what is missing or damaged
    complete: bool = True  # False: the file is truncated, or parts of it could not be read

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def end(self) -> Column:
        return self.begin + self.duration

    @property
    def span_ns(self) -> int:
        """From the begin of the first event to the end of the last."""
        return int(self.end.max()) if len(self) else 0

    def rows(self, *kinds: Kind) -> Rows:
        """The rows of these kinds."""
        wanted = np.zeros(len(Kind), bool)
        wanted[list(kinds)] = True
        return np.flatnonzero(wanted[self.kind])

    def name_of(self, row: int) -> str:
        return self.names[int(self.name[row])]

    def details_of(self, row: int) -> RowDetails:
        """Shapes, grids, bytes and other optional information about a row."""
        return self.details[int(self.detail[row])]

    @functools.cached_property
    def launched_by(self) -> Rows:
        """For each row on a GPU, the call that launched it; NONE if that was not recorded."""
        launched_by = np.full(len(self), NONE, dtype=np.int64)
        calls, gpu_rows = self.rows(Kind.CALL), self.rows(*ON_GPU)
        calls, gpu_rows = calls[self.link[calls] != 0], gpu_rows[self.link[gpu_rows] != 0]
        if not len(calls) or not len(gpu_rows):
            return launched_by
        calls = calls[np.argsort(self.link[calls], kind="stable")]
        at = np.searchsorted(self.link[calls], self.link[gpu_rows]).clip(max=len(calls) - 1)
        same = self.link[calls[at]] == self.link[gpu_rows]
        launched_by[gpu_rows[same]] = calls[at[same]]
        return launched_by
