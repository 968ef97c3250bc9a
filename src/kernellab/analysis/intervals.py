"""Intervals of time in nanoseconds: merging them, and their overlap with spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernellab.traces.trace import Column, Mask
from kernellab.traceview.row_tree import take

Interval = tuple[int, int]


def merge(intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals in order, with those that overlap or touch merged."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(intervals: Sequence[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)


def contain(merged: Sequence[Interval], at: Column) -> Mask:
    """Which moments are inside one of the intervals."""
    if not merged:
        return np.zeros(len(at), dtype=np.bool_)
    begin, end = np.array(merged, dtype=np.int64).T
    where = np.searchsorted(begin, at, side="right") - 1
    return np.asarray((where >= 0) & (at < take(end, where)))


def overlap(merged: Sequence[Interval], begin: Column, end: Column) -> Column:
    """How much of each span from `begin` to `end` is inside the intervals."""
    if not merged:
        return np.zeros(len(begin), dtype=np.int64)
    starts, ends = np.array(merged, dtype=np.int64).T
    covered = np.append(0, np.cumsum(ends - starts))

    def covered_until(moment: Column) -> Column:
        at = np.searchsorted(starts, moment, side="right")
        over = np.where(at > 0, np.maximum(ends[(at - 1).clip(min=0)] - moment, 0), 0)
        return np.asarray(covered[at] - over)

    return covered_until(np.maximum(end, begin)) - covered_until(begin)
