"""Rows of one kind as a tree: the row around a moment, sums over what a row contains, the path from the root.

A trace's own `parent` column mixes kinds that do not nest in each other: a range opened in `__enter__` outlives that
Python call. Rows of one kind do nest, so each question builds the tree it needs. Positions count the tree's own rows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from kernellab.traces.trace import NONE, Column, Mask, Rows, Trace


class RowTree:
    def __init__(self, trace: Trace, rows: Rows) -> None:
        self.rows = rows  # sorted as the table is: by lane, then time, outer rows before inner ones
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
        """How many rows of the lane are open when each row begins. A row without duration counts as 1 ns long."""
        opened = np.arange(len(self), dtype=np.int64)
        ends = np.sort(self.lane * self._span + np.maximum(self.end, self.begin + 1))
        return opened - np.searchsorted(ends, self._key, side="right")

    def _parents(self) -> Rows:
        """The parent is the last earlier row one level higher: one search per level, however many rows there are."""
        parents = np.full(len(self), NONE, dtype=np.int64)
        levels = self._levels()
        for outer, inner in itertools.pairwise(levels):
            if len(outer) and len(inner):
                at = np.searchsorted(outer, inner) - 1
                nearest = outer[at.clip(min=0)]
                parents[inner] = np.where((at >= 0) & (self.lane[nearest] == self.lane[inner]), nearest, NONE)
        return parents

    def _levels(self) -> list[Rows]:
        """The positions of each depth, outermost first."""
        order = np.argsort(self.depth, kind="stable")
        starts = np.searchsorted(self.depth[order], np.arange(self.depth.max(initial=0) + 2))
        return [order[first:past] for first, past in itertools.pairwise(starts.tolist())]

    def around(self, lane: Column, at: Column) -> Rows:
        """The innermost row of a lane that is open at a moment."""
        if not len(self):
            return np.full(len(at), NONE, dtype=np.int64)
        position = np.searchsorted(self._key, lane * self._span + at, side="right") - 1
        position[(position >= 0) & (self.lane[position] != lane)] = NONE
        while True:
            closed = np.flatnonzero((position >= 0) & (self.end[position] <= at))
            if not len(closed):
                return position
            position[closed] = self.parent[position[closed]]

    def adopt(self, lane: int, lanes: Column) -> None:
        """Puts the outermost rows of `lanes` inside the row of `lane` that is open when they begin.

        Autograd launches from its own thread while the thread that called `backward()` waits.
        """
        roots = np.flatnonzero((self.parent == NONE) & (self.lane != lane) & np.isin(self.lane, lanes))
        self.parent[roots] = self.around(np.full(len(roots), lane, dtype=np.int64), self.begin[roots])
        self.depth = self._depths_from_parents()

    def _depths_from_parents(self) -> Column:
        up, steps = self.parent.copy(), (self.parent >= 0).astype(np.int64)
        while (up >= 0).any():
            steps = np.where(up >= 0, steps + steps[up], steps)
            up = np.where(up >= 0, up[up], NONE)
        return steps

    def nearest(self, mask: Mask) -> Rows:
        """For each row, itself or its nearest ancestor in the mask. Jumps double, so deep trees take few iterations."""
        stay = np.arange(len(self), dtype=np.int64)
        jump = np.where(mask | (self.parent < 0), stay, self.parent)
        while True:
            further = jump[jump]
            if (further == jump).all():
                return np.where(mask[jump], jump, NONE) if len(self) else jump
            jump = further

    @functools.cached_property
    def outermost(self) -> Rows:
        """The root above each row, or the row itself."""
        return self.nearest(self.parent < 0)

    def _inner_first(self) -> Iterator[Rows]:
        """The positions of each depth below the roots, deepest first."""
        yield from reversed(self._levels()[1:])

    def totals(self, values: Column) -> Column:
        """For each row, the sum of its value and those of all rows inside it."""
        totals = values.copy()
        for level in self._inner_first():
            inside = level[self.parent[level] >= 0]
            np.add.at(totals, self.parent[inside], totals[inside])
        return totals

    def self_time(self) -> Column:
        """The duration of each row without the rows directly inside it."""
        inside = np.flatnonzero(self.parent >= 0)
        return self.duration - sum_by_key(self.parent[inside], self.duration[inside], len(self))

    def first_of_name(self) -> Mask:
        """Rows without an ancestor of the same name: a sum over them counts nothing twice."""
        repeated, above = np.zeros(len(self), dtype=np.bool_), self.parent.copy()
        pending = np.flatnonzero(above >= 0)
        while len(pending):
            same = self.name[above[pending]] == self.name[pending]
            repeated[pending[same]] = True
            pending = pending[~same]
            above[pending] = self.parent[above[pending]]
            pending = pending[above[pending] >= 0]
        return ~repeated

    def paths(self, labels: Column) -> tuple[Column, list[tuple[int, ...]]]:
        """For each row, the number of its path of labels from the root; and the paths by number."""
        number, paths = np.full(len(self), NONE, dtype=np.int64), list[tuple[int, ...]]()
        for level in self._levels():
            if not len(level):
                continue
            above = np.where(self.parent[level] >= 0, number[self.parent[level]], NONE)
            pairs, which = distinct(above, labels[level])
            number[level] = len(paths) + which
            paths += [(*(paths[up] if up >= 0 else ()), label) for up, label in pairs]
        return number, paths


def sum_by_key(keys: Column, values: Column, size: int) -> Column:
    """The sum of the values of each key. Exact: the nanoseconds of a day fit into a double's 53 bits."""
    return np.bincount(keys, weights=values, minlength=size).astype(np.int64)


def distinct(*keys: Column) -> tuple[list[tuple[int, ...]], Column]:
    """The different combinations of keys, and the index of each row's combination. Keys are NONE or larger."""
    combined = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        combined = combined * (int(key.max(initial=0)) + 2) + key + 1
    _, first, which = np.unique(combined, return_index=True, return_inverse=True)
    return list(zip(*(key[first].tolist() for key in keys), strict=True)), which.reshape(-1).astype(np.int64)


def take(values: Column, at: Rows, default: int = NONE) -> Column:
    """`values[at]`, and the default where `at` is NONE."""
    if not len(values):
        return np.full(len(at), default, dtype=np.int64)
    return np.where(at >= 0, values[at], default)
