"""Rows of one sort as they lie in each other: what is around a moment, what a row holds, the path down to it.

A trace's own `parent` mixes sorts that do not nest: a range begun in `__enter__` outlives the Python call that began
it. Within one sort rows do nest, so each question builds the nest it needs. Positions count the nest's own rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kernellab.traces.trace import NONE, Column, Rows, Trace

Mask = npt.NDArray[np.bool_]


class RowTree:
    def __init__(self, trace: Trace, rows: Rows) -> None:
        self.rows = rows  # sorted by lane, then time, outer before inner, as the table is
        self.lane, self.begin = trace.lane[rows], trace.begin[rows]
        self.end = self.begin + trace.duration[rows]
        self.name = trace.name[rows]
        self._span = trace.span_ns + 2
        self._key = self.lane * self._span + self.begin
        self.depth = self._depths()
        self.parent = self._parents()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def duration(self) -> Column:
        return self.end - self.begin

    def _depths(self) -> Column:
        """How many rows of the lane are open at each one's begin. One that took no time counts as taking some."""
        opened = np.arange(len(self), dtype=np.int64)
        ends = np.sort(self.lane * self._span + np.maximum(self.end, self.begin + 1))
        return opened - np.searchsorted(ends, self._key, side="right")

    def _parents(self) -> Rows:
        """The last row before it that is one less deep: one search per depth, however many rows there are."""
        found = np.full(len(self), NONE, dtype=np.int64)
        order = np.argsort(self.depth, kind="stable")
        starts = np.searchsorted(self.depth[order], np.arange(self.depth.max(initial=0) + 2))
        for depth in range(1, len(starts) - 1):
            outer, inner = (order[starts[d] : starts[d + 1]] for d in (depth - 1, depth))
            if len(outer) and len(inner):
                at = np.searchsorted(outer, inner) - 1
                near = outer[at.clip(min=0)]
                found[inner] = np.where((at >= 0) & (self.lane[near] == self.lane[inner]), near, NONE)
        return found

    def around(self, lane: Column, at: Column) -> Rows:
        """The innermost row of a lane that is open at a moment."""
        if not len(self):
            return np.full(len(at), NONE, dtype=np.int64)
        found = np.searchsorted(self._key, lane * self._span + at, side="right") - 1
        found[(found >= 0) & (self.lane[found] != lane)] = NONE
        while True:
            over = np.flatnonzero((found >= 0) & (self.end[found] <= at))
            if not len(over):
                return found
            found[over] = self.parent[found[over]]

    def adopt(self, lane: int, lanes: Column) -> None:
        """Rows of `lanes` with nothing around them lie in what `lane` was doing then.

        Autograd launches from a thread of its own while the thread that called `backward()` waits.
        """
        roots = np.flatnonzero((self.parent == NONE) & (self.lane != lane) & np.isin(self.lane, lanes))
        self.parent[roots] = self.around(np.full(len(roots), lane, dtype=np.int64), self.begin[roots])
        self.depth = self._steps_up()

    def _steps_up(self) -> Column:
        up, steps = self.parent.copy(), (self.parent >= 0).astype(np.int64)
        while (up >= 0).any():
            steps = np.where(up >= 0, steps + steps[up], steps)
            up = np.where(up >= 0, up[up], NONE)
        return steps

    def nearest(self, mask: Mask) -> Rows:
        """For each row, itself or the first above it of the mask; jumps double, so depth costs little."""
        stay = np.arange(len(self), dtype=np.int64)
        jump = np.where(mask | (self.parent < 0), stay, self.parent)
        while True:
            further = jump[jump]
            if (further == jump).all():
                return np.where(mask[jump], jump, NONE) if len(self) else jump
            jump = further

    @functools.cached_property
    def outermost(self) -> Rows:
        return self.nearest(self.parent < 0)

    def inner_first(self) -> Iterator[Rows]:
        """All that have a row around them, the deepest together first."""
        order = np.argsort(self.depth, kind="stable")
        starts = np.searchsorted(self.depth[order], np.arange(self.depth.max(initial=0) + 2))
        for depth in range(len(starts) - 2, 0, -1):
            yield order[starts[depth] : starts[depth + 1]]

    def totals(self, of: Column) -> Column:
        """What each row holds with all that lies in it."""
        held = of.copy()
        for level in self.inner_first():
            inside = level[self.parent[level] >= 0]
            np.add.at(held, self.parent[inside], held[inside])
        return held

    def self_time(self) -> Column:
        inside = np.flatnonzero(self.parent >= 0)
        return self.duration - sums(self.parent[inside], self.duration[inside], len(self))

    def first_of_name(self) -> Mask:
        """Rows with no row of the same name around them: what is summed over them counts nothing twice."""
        again, above = np.zeros(len(self), dtype=np.bool_), self.parent.copy()
        alive = np.flatnonzero(above >= 0)
        while len(alive):
            same = self.name[above[alive]] == self.name[alive]
            again[alive[same]] = True
            alive = alive[~same]
            above[alive] = self.parent[above[alive]]
            alive = alive[above[alive] >= 0]
        return ~again

    def paths(self, labels: Column) -> tuple[Column, list[tuple[int, ...]]]:
        """Each row's path of labels from the outside in, as a number, and what the numbers stand for."""
        number, known = np.full(len(self), NONE, dtype=np.int64), list[tuple[int, ...]]()
        order = np.argsort(self.depth, kind="stable")
        starts = np.searchsorted(self.depth[order], np.arange(self.depth.max(initial=0) + 2))
        for depth in range(len(starts) - 1):
            level = order[starts[depth] : starts[depth + 1]]
            if not len(level):
                continue
            above = np.where(self.parent[level] >= 0, number[self.parent[level]], NONE)
            pairs, which = distinct(above, labels[level])
            number[level] = len(known) + which
            known += [(*(known[up] if up >= 0 else ()), label) for up, label in pairs]
        return number, known


def sums(keys: Column, values: Column, size: int) -> Column:
    """The values added up by key. Exact: nanoseconds of a day fit a double's 53 bits."""
    return np.bincount(keys, weights=values, minlength=size).astype(np.int64)


def distinct(*keys: Column) -> tuple[list[tuple[int, ...]], Column]:
    """The different combinations of keys, and which of them each row has. Keys are NONE or more."""
    whole = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        whole = whole * (int(key.max(initial=0)) + 2) + key + 1
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return list(zip(*(key[first].tolist() for key in keys), strict=True)), which.reshape(-1).astype(np.int64)


def take(values: Column, at: Rows, change: int = NONE) -> Column:
    """`values[at]`, where `at` may be NONE."""
    if not len(values):
        return np.full(len(at), change, dtype=np.int64)
    return np.where(at >= 0, values[at], change)
