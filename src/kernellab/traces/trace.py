"""A trace as one table: what ran where, from when to when, and what started what.

PyTorch's profiler and Nsight Systems write different files; both are read into these columns, so that a question is
asked of them once. Times are whole nanoseconds since the first event. Rows are sorted by lane, then by time, outer ones
before inner ones. What a file says beyond the columns is kept once per distinct text, in `details`.
"""

from __future__ import annotations

import enum
import functools
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.base.text import shown

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

# A program can write anything into its trace, and some do so without end. A real one of a million events keeps far
# below these.
_LONGEST_NAME = 10_000  # characters; those of real kernels reach thousands
_NAMES = 400 << 20  # bytes, roughly, of all names
_DETAILS = 32 << 20  # characters of all details
_MOST_LANES = 4096
_MOST_ROWS = 20_000_000
_DEEPEST = 64  # rows between a range and what is around it
_FAR_NS = 30 * 24 * 3600 * 10**9  # nobody profiles for a month: a time this far from the others is a mistake
# Which row is the outer one of two that begin and end at once: the callee comes after its caller.
_INWARD = np.array([6, 3, 2, 1, 0, 4, 0, 1, 5, 5, 5])


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
    whole: bool = True  # or the file breaks off, or could not be read in places

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
        wanted = np.zeros(len(Kind), bool)
        wanted[list(kinds)] = True
        return np.flatnonzero(wanted[self.kind])

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
    """Rows added one by one, in any order. What is left out of them is counted, and told in the trace's notes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.about: dict[str, Any] = {}
        self.notes: list[str] = []
        self.missed: Counter[str] = Counter()  # what is left out, and how often
        self.zero_ns = 0
        self.whole = True
        self._rows = array("q")  # of eight numbers each
        self._memory = array("q")  # of six
        self._names: dict[str, int] = {}
        self._name_bytes = 0
        self._lanes: list[Lane] = []
        self._lane_numbers: dict[Lane, int] = {}
        self._details: dict[str, int] = {"": 0}
        self._detail_size = 0
        self._known: list[Mapping[str, Any]] = [{}]

    def __len__(self) -> int:
        return len(self._rows) // 8

    @property
    def full(self) -> bool:
        """Whether there are as many rows as are kept."""
        return len(self._rows) + len(self._memory) >= 8 * _MOST_ROWS

    def lane(self, lane: Lane) -> int:
        number = self._lane_numbers.setdefault(lane, len(self._lanes))
        if number == len(self._lanes):
            self._lanes.append(lane)
        return number

    @property
    def lanes_full(self) -> bool:
        return len(self._lanes) >= _MOST_LANES

    def rename(self, number: int, lane: Lane) -> None:
        """A lane's names can come after its rows."""
        self._lanes[number] = lane

    def name(self, text: str) -> int:
        number = self._names.get(text)
        return self._new_name(text) if number is None else number

    def _new_name(self, text: str) -> int:
        if len(text) > _LONGEST_NAME:
            self.missed[f"the end of a name of more than {_LONGEST_NAME:,} characters"] += 1
            text = f"{text[:_LONGEST_NAME]}… ({len(text):,} characters)"  # names that begin alike may differ so
        text = shown(text)
        if text not in self._names:
            if self._name_bytes > _NAMES:
                self.missed["a name, there being too many different ones"] += 1
                text = "(a name left out)"
            self._name_bytes += len(text) + 150
        return self._names.setdefault(text, len(self._names))

    def detail(self, key: str, value: Mapping[str, Any]) -> int:
        """`key` is a text that is the same for the same value."""
        if (number := self._details.get(key)) is not None:
            return number
        if self._detail_size > _DETAILS:
            self.missed["an event's details, there being too many different ones"] += 1
            return 0
        self._detail_size += len(key)
        self._details[key] = len(self._known)
        self._known.append(value)
        return self._details[key]

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
        self._rows.extend((kind, begin, duration, lane, name, link, sequence, detail))

    def allocate(self, at: int, size: int, total: int, device: int, address: int, lane: int) -> None:
        self._memory.extend((at, size, total, device, address, lane))

    def trace(self) -> Trace:
        """Everything added. Its times begin at 0 from here on."""
        rows = np.array(self._rows, np.int64).reshape(-1, 8)
        memory = np.array(self._memory, np.int64).reshape(-1, 6)
        times = rows[:, 1] if len(rows) else memory[:, 0]
        if len(times):
            middle = int(np.partition(times, len(times) // 2)[len(times) // 2])
            rows = self._near(rows, (abs(rows[:, 1] - middle) <= _FAR_NS) & (rows[:, 2] <= _FAR_NS))
            memory = self._near(memory, abs(memory[:, 0] - middle) <= _FAR_NS)
        first = min([int(times.min()) for times in (rows[:, 1], memory[:, 0]) if len(times)], default=0)
        kind, begin, duration, lane, *_ = rows.T
        order = np.lexsort((_INWARD[kind], -duration, begin, lane))
        kind, begin, duration, lane, name, link, sequence, detail = (
            np.ascontiguousarray(column[order]) for column in rows.T
        )
        begin -= first
        memory = memory[np.argsort(memory[:, 0], kind="stable")]
        memory[:, 0] -= first
        return Trace(
            kind, begin, duration, lane, name, link, sequence, detail,
            parent=_parents(kind, lane, begin, begin + duration),
            names=list(self._names), lanes=self._lanes, details=self._known,
            memory=Memory(*(np.ascontiguousarray(column) for column in memory.T)),
            source=self.source, zero_ns=self.zero_ns + first, about=self.about, whole=self.whole,
            notes=self.notes + [f"Left out: {what} ({times:,} ×)." for what, times in self.missed.items()],
        )  # fmt: skip

    def _near(self, rows: Column, near: npt.NDArray[np.bool_]) -> Column:
        if near.all():
            return rows
        self.missed["an event more than a month away from the others, or longer than that"] += int((~near).sum())
        return rows[near]


def _parents(kind: Column, lane: Column, begin: Column, end: Column) -> Rows:
    """The row around each, in its lane.

    A row ends with the one around it, even where a clock says a little later. Ranges alone do not keep to that: one
    begins within the call that opens it and ends within the call that closes it. What is around a range is what
    outlasts it, and everything that begins before its end is within it.
    """
    found: list[int] = []
    around: list[tuple[int, int, bool]] = []  # outermost first: row, end, whether a range
    now = -1
    is_range = (kind == Kind.RANGE).tolist()
    for row, (where, start, stop) in enumerate(zip(lane.tolist(), begin.tolist(), end.tolist(), strict=True)):
        if where != now:
            around, now = [], where
        while around and around[-1][1] <= start:
            around.pop()
        ranges = is_range[row]
        if ranges:
            near = islice(reversed(around), _DEEPEST)
            found.append(next((outer for outer, last, _ in near if last >= stop), NONE))
        elif around:
            outer, last, within_range = around[-1]
            found.append(outer)
            if stop > last and not within_range:
                stop = last
        else:
            found.append(NONE)
        around.append((row, stop, ranges))
    return np.array(found, dtype=np.int64)
