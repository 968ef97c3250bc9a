"""A trace as one table: what ran where, from when to when, and what started what.

PyTorch's profiler and Nsight Systems write different files; both are read into these columns, so that a question is
asked of them once. Times are whole nanoseconds since the first event. Rows are sorted by lane, then by time, outer ones
before inner ones. What a file says beyond the columns is kept once per distinct text, in `details`.
"""

from __future__ import annotations

import enum
import functools
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]  # positions in the table

NONE = -1  # no such row


class Kind(enum.IntEnum):
    """What a row is. The last three take a GPU's time; all others a thread's, but for `GPU_RANGE`."""

    OTHER = 0
    OPERATOR = 1  # of torch: aten::mm, autograd's nodes
    RANGE = 2  # a stretch the program named: record_function, NVTX
    MODULE = 3  # a call of an nn.Module
    PYTHON = 4  # a call of a Python function
    CALL = 5  # of CUDA's runtime or driver
    GPU_RANGE = 6  # a range as its kernels ran
    WAIT = 7  # a wait as the GPU's own clock saw it
    KERNEL = 8
    COPY = 9
    FILL = 10


ON_GPU = (Kind.KERNEL, Kind.COPY, Kind.FILL)


@dataclass(frozen=True)
class Lane:
    """Where rows lie: a thread of a process, or a stream of a GPU."""

    process: str
    name: str
    device: int | None = None  # of a stream
    stream: int | None = None

    @property
    def on_gpu(self) -> bool:
        return self.device is not None


@dataclass(frozen=True)
class Memory:
    """Allocations and frees, in the order of time. `device` is -1 for the host's memory; `total` what is held after."""

    at: Column
    bytes: Column  # negative: freed
    total: Column
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
    link: Column  # the same number for a call and what it started on the GPU; 0: none
    sequence: Column  # the same number for an operator and its backward; 0: none
    detail: Column
    parent: Rows  # the row around it in its lane
    names: list[str]
    lanes: list[Lane]
    details: list[Mapping[str, Any]]  # the first is empty
    memory: Memory
    source: str  # `kineto`, `nsys`
    zero_ns: int = 0  # of the clock on the wall, where known: several traces are laid beside each other by it
    about: Mapping[str, Any] = field(default_factory=dict)  # GPUs, rank, versions: what the file says of itself
    notes: list[str] = field(default_factory=list)  # what is missing or damaged, in words

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def end(self) -> Column:
        return self.begin + self.duration

    @property
    def span_ns(self) -> int:
        """From the first event's begin to the last one's end."""
        return int(self.end.max()) if len(self) else 0

    def rows(self, *kinds: Kind) -> Rows:
        """The rows of these kinds."""
        return np.flatnonzero(np.isin(self.kind, kinds))

    def text(self, row: int) -> str:
        return self.names[int(self.name[row])]

    def more(self, row: int) -> Mapping[str, Any]:
        """Shapes, grids, bytes: whatever else is known of a row."""
        return self.details[int(self.detail[row])]

    @functools.cached_property
    def starter(self) -> Rows:
        """For each row on a GPU, the call that started it, where that was recorded."""
        found = np.full(len(self), NONE, dtype=np.int64)
        calls, started = self.rows(Kind.CALL), self.rows(*ON_GPU)
        calls, started = calls[self.link[calls] != 0], started[self.link[started] != 0]
        if not len(calls) or not len(started):
            return found
        calls = calls[np.argsort(self.link[calls], kind="stable")]
        at = np.searchsorted(self.link[calls], self.link[started]).clip(max=len(calls) - 1)
        same = self.link[calls[at]] == self.link[started]
        found[started[same]] = calls[at[same]]
        return found


class Builder:
    """Rows added one by one, in any order."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.about: dict[str, Any] = {}
        self.notes: list[str] = []
        self.zero_ns = 0
        self._columns = [array("q") for _ in range(8)]
        self._memory = [array("q") for _ in range(6)]
        self._names: dict[str, int] = {}
        self._lanes: dict[Lane, int] = {}
        self._details: dict[str, int] = {"": 0}
        self._known: list[Mapping[str, Any]] = [{}]

    def __len__(self) -> int:
        return len(self._columns[0])

    def lane(self, lane: Lane) -> int:
        return self._lanes.setdefault(lane, len(self._lanes))

    def name(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names))

    def detail(self, key: str, value: Mapping[str, Any]) -> int:
        """`key` is a text that is the same for the same value."""
        number = self._details.setdefault(key, len(self._known))
        if number == len(self._known):
            self._known.append(value)
        return number

    def add(
        self,
        kind: Kind,
        name: int,
        lane: int,
        begin: int,
        duration: int,
        *,
        link: int = 0,
        sequence: int = 0,
        detail: int = 0,
    ) -> None:
        for column, value in zip(
            self._columns, (kind, begin, duration, lane, name, link, sequence, detail), strict=True
        ):
            column.append(value)

    def allocate(self, at: int, size: int, total: int, device: int, address: int, lane: int) -> None:
        for column, value in zip(self._memory, (at, size, total, device, address, lane), strict=True):
            column.append(value)

    def trace(self) -> Trace:
        """Everything added. Its times begin at 0 from here on."""
        kind, begin, duration, lane, name, link, sequence, detail = (np.array(c, np.int64) for c in self._columns)
        memory = [np.array(c, np.int64) for c in self._memory]
        first = min([int(c.min()) for c in (begin, memory[0]) if len(c)], default=0)
        order = np.lexsort((-duration, begin, lane))
        kind, begin, duration, lane, name, link, sequence, detail = (
            c[order] for c in (kind, begin - first, duration, lane, name, link, sequence, detail)
        )
        memory[0] -= first
        in_time = np.argsort(memory[0], kind="stable")
        return Trace(
            kind, begin, duration, lane, name, link, sequence, detail,
            parent=_parents(lane, begin, begin + duration),
            names=list(self._names), lanes=list(self._lanes), details=self._known,
            memory=Memory(*(column[in_time] for column in memory)),
            source=self.source, zero_ns=self.zero_ns + first, about=self.about, notes=self.notes,
        )  # fmt: skip


def _parents(lane: Column, begin: Column, end: Column) -> Rows:
    """The row around each, in its lane: a row ends with the one around it, even where a clock says a little later."""
    found: list[int] = []
    around: list[tuple[int, int]] = []
    now = -1
    for row, (where, start) in enumerate(zip(lane.tolist(), begin.tolist(), strict=True)):
        if where != now:
            around, now = [], where
        while around and around[-1][1] <= start:
            around.pop()
        found.append(around[-1][0] if around else NONE)
        around.append((row, int(end[row])))
    return np.array(found, dtype=np.int64)
