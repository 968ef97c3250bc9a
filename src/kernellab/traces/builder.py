"""Builds a trace from rows in any order: sorts them, nests them, and limits the memory a hostile file can take."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import islice

import numpy as np

from kernellab.base.json import JsonObject
from kernellab.base.text import printable
from kernellab.traces.row_details import RowDetails
from kernellab.traces.trace import NONE, Column, Kind, Lane, Mask, Memory, Rows, Trace

LATEST_NS = 4 * 10**18  # in the year 2096; sums of two such times fit into 64 bits

# A program can write anything into its trace, without end. A real trace of a million events stays far below these.
_MAX_NAME = 10_000  # characters; names of real kernels reach thousands
_MAX_NAME_BYTES = 400 << 20  # roughly, of all names
_MAX_DETAIL_TEXT = 32 << 20  # characters of all details
_MAX_LANES = 4096
_MAX_ROWS = 20_000_000
_MAX_DEPTH = 64  # open rows searched for the one around a range
_MAX_DISTANCE_NS = 30 * 24 * 3600 * 10**9  # a month: a time further from the others is a mistake in the file
# Of two rows that begin and end together, the one with the lower rank is the outer one: callers before callees.
_NESTING_RANK = np.array([6, 3, 2, 1, 0, 4, 0, 1, 5, 5, 5])  # by Kind


class TraceBuilder:
    """Collects rows one by one. What it drops is counted and reported in the trace's notes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.metadata: JsonObject = {}
        self.notes: list[str] = []
        self.dropped: Counter[str] = Counter()  # what was dropped, and how often
        self.zero_ns = 0
        self.complete = True
        self._rows = array("q")  # eight numbers per row
        self._memory = array("q")  # six numbers per allocation
        self._names: dict[str, int] = {}
        self._name_bytes = 0
        self._lanes: list[Lane] = []
        self._lane_numbers: dict[Lane, int] = {}
        self._detail_numbers: dict[str, int] = {"": 0}
        self._detail_text = 0
        self._details: list[RowDetails] = [{}]

    def __len__(self) -> int:
        return len(self._rows) // 8

    @property
    def full(self) -> bool:
        """Whether the limit of rows is reached."""
        return len(self._rows) + len(self._memory) >= 8 * _MAX_ROWS

    def lane(self, lane: Lane) -> int:
        """The number of a lane."""
        number = self._lane_numbers.setdefault(lane, len(self._lanes))
        if number == len(self._lanes):
            self._lanes.append(lane)
        return number

    @property
    def lanes_full(self) -> bool:
        """Whether the limit of lanes is reached."""
        return len(self._lanes) >= _MAX_LANES

    def rename_lane(self, number: int, lane: Lane) -> None:
        """Name a lane later: a file may contain the name after the lane's rows."""
        self._lanes[number] = lane

    def name(self, text: str) -> int:
        """The number of a name."""
        number = self._names.get(text)
        return self._add_name(text) if number is None else number

    def _add_name(self, text: str) -> int:
        if len(text) > _MAX_NAME:
            self.dropped[f"the end of a name of more than {_MAX_NAME:,} characters"] += 1
            text = f"{text[:_MAX_NAME]}… ({len(text):,} characters)"  # the length: names may begin alike
        text = printable(text)
        if text not in self._names:
            if self._name_bytes > _MAX_NAME_BYTES:
                self.dropped["a name, because there are too many different ones"] += 1
                text = "(a name left out)"
            self._name_bytes += len(text) + 150
        return self._names.setdefault(text, len(self._names))

    def detail(self, key: str, details: RowDetails) -> int:
        """The number of details; `key` is a text that is equal for equal details."""
        if (number := self._detail_numbers.get(key)) is not None:
            return number
        if self._detail_text > _MAX_DETAIL_TEXT:
            self.dropped["an event's details, because there are too many different ones"] += 1
            return 0
        self._detail_text += len(key)
        self._detail_numbers[key] = len(self._details)
        self._details.append(details)
        return self._detail_numbers[key]

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

    def add_allocation(self, at: int, size: int, total: int, device: int, address: int, lane: int) -> None:
        """A negative size is a free."""
        self._memory.extend((at, size, total, device, address, lane))

    def build(self) -> Trace:
        """The trace of everything added. Its times start at 0."""
        rows = np.array(self._rows, np.int64).reshape(-1, 8)
        memory = np.array(self._memory, np.int64).reshape(-1, 6)
        times = rows[:, 1] if len(rows) else memory[:, 0]
        if len(times):
            median = int(np.partition(times, len(times) // 2)[len(times) // 2])
            near = (abs(rows[:, 1] - median) <= _MAX_DISTANCE_NS) & (rows[:, 2] <= _MAX_DISTANCE_NS)
            rows = self._keep(rows, near)
            memory = self._keep(memory, abs(memory[:, 0] - median) <= _MAX_DISTANCE_NS)
        first = min([int(times.min()) for times in (rows[:, 1], memory[:, 0]) if len(times)], default=0)
        kind, begin, duration, lane, *_ = rows.T
        order = np.lexsort((_NESTING_RANK[kind], -duration, begin, lane))
        kind, begin, duration, lane, name, link, sequence, detail = (
            np.ascontiguousarray(column[order]) for column in rows.T
        )
        begin -= first
        memory = memory[np.argsort(memory[:, 0], kind="stable")]
        memory[:, 0] -= first
        return Trace(
            kind, begin, duration, lane, name, link, sequence, detail,
            parent=_parents(kind, lane, begin, begin + duration),
            names=list(self._names), lanes=self._lanes, details=self._details,
            memory=Memory(*(np.ascontiguousarray(column) for column in memory.T)),
            source=self.source, zero_ns=self.zero_ns + first, metadata=self.metadata, complete=self.complete,
            notes=self.notes + [f"Left out: {what} ({times:,} ×)." for what, times in self.dropped.items()],
        )  # fmt: skip

    def _keep(self, rows: Column, near: Mask) -> Column:
        if near.all():
            return rows
        self.dropped["an event more than a month away from the others, or longer than that"] += int((~near).sum())
        return rows[near]


def _parents(kind: Column, lane: Column, begin: Column, end: Column) -> Rows:
    """The row around each row, in its lane.

    A row is assumed to end with the row around it, even if its clock says slightly later. Ranges are the exception:
    a range begins inside the call that opens it and ends inside the call that closes it. The row around a range is the
    innermost open row that ends after it, and everything that begins before the range's end is inside it.
    """
    parents: list[int] = []
    open_rows: list[tuple[int, int, bool]] = []  # outermost first: row, end, whether a range
    current_lane = -1
    is_range = (kind == Kind.RANGE).tolist()
    for row, (row_lane, start, stop) in enumerate(zip(lane.tolist(), begin.tolist(), end.tolist(), strict=True)):
        if row_lane != current_lane:
            open_rows, current_lane = [], row_lane
        while open_rows and open_rows[-1][1] <= start:
            open_rows.pop()
        if is_range[row]:
            innermost_first = islice(reversed(open_rows), _MAX_DEPTH)
            parents.append(next((outer for outer, outer_end, _ in innermost_first if outer_end >= stop), NONE))
        elif open_rows:
            outer, outer_end, outer_is_range = open_rows[-1]
            parents.append(outer)
            if stop > outer_end and not outer_is_range:
                stop = outer_end
        else:
            parents.append(NONE)
        open_rows.append((row, stop, is_range[row]))
    return np.array(parents, dtype=np.int64)
