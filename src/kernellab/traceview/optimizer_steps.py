"""Which steps of the optimizers end the program's own steps, if several optimizers take turns.

The two optimizers of a GAN step once each in a step of the program. The recorder counted steps by the optimizer that
steps first, and may have written how many it recorded. Otherwise optimizers are distinguished by their operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernellab.traces.trace import Column, Rows, Trace
from kernellab.traceview.row_tree import RowTree, distinct

RANGES = r"^Optimizer\.step#"
_RARE = (
    3  # a group this many times rarer than the largest is ignored: a first step creates state and resembles no other
)


@dataclass(frozen=True)
class RecordedSteps:
    """The steps a trace covers, as the recorder numbered them."""

    first: int
    count: int


def read_recorded_steps(trace: Trace) -> RecordedSteps | None:
    """The steps that `klab profile` wrote into the trace; None for other traces and for invalid values."""
    metadata = trace.metadata.get("kernellab")
    phases = metadata.get("steps") if isinstance(metadata, dict) else None
    listed = phases if isinstance(phases, list) else []
    active = [phase for phase in listed if isinstance(phase, dict) and phase.get("phase") == "active"]
    first, last = (active[-1].get(key) for key in ("first", "last")) if active else (None, None)
    if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last):
        return None
    return RecordedSteps(first, last - first + 1)


def select(ranges: RowTree, candidates: Rows, operators: RowTree, trace: Trace, recorded: RecordedSteps | None) -> Rows:
    """Of the optimizers' ranges, in order of time, those that end steps of the program."""
    if not len(candidates) or (recorded is not None and recorded.count >= len(candidates)):
        return candidates
    groups = list(_groups(ranges.name[candidates]))
    if recorded is None:
        return _select_alike(ranges, candidates, operators, trace) if len(groups) == 1 else candidates[groups[0]]
    # A recording that starts in the middle starts after a step of the first optimizer, and ends with one.
    from_start = recorded.first == 0
    matching = [group for group in groups if len(group) == recorded.count]
    if matching:
        return candidates[matching[0] if from_start else max(matching, key=lambda group: int(group[-1]))]
    turns = np.arange(recorded.count) if from_start else np.arange(1, recorded.count + 1)
    return candidates[turns * len(candidates) // recorded.count - (0 if from_start else 1)]


def _groups(labels: Column) -> Iterator[Rows]:
    """Positions by label, in order of first appearance."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    for label in np.argsort(first, kind="stable").tolist():
        yield np.flatnonzero(which.reshape(-1) == label)


def _select_alike(ranges: RowTree, candidates: Rows, operators: RowTree, trace: Trace) -> Rows:
    """Optimizers of the same name differ in the operators of their steps, and in the shapes of these operators."""
    in_lane = np.flatnonzero(operators.lane == ranges.lane[candidates[0]])
    begins = operators.begin[in_lane]
    low, high = (np.searchsorted(begins, edge) for edge in (ranges.begin[candidates], ranges.end[candidates]))
    labels = (operators.name[in_lane] + 1, _shape_numbers(trace, operators.rows[in_lane]))
    sums = [np.append(0, np.cumsum(column)) for column in labels]
    _, which = distinct(high - low, *(total[high] - total[low] for total in sums))
    groups = list(_groups(which))
    most = max(map(len, groups))
    frequent = [group for group in groups if len(group) > 2 and _RARE * len(group) >= most]
    return candidates[frequent[0]] if len(frequent) > 1 else candidates


def _shape_numbers(trace: Trace, rows: Rows) -> Column:
    """A number for each row's shapes. Details contain scalars too, and those change from step to step."""
    numbers: dict[str, int] = {}
    by_detail = np.zeros(len(trace.details), dtype=np.int64)
    for detail in np.unique(trace.detail[rows]).tolist():
        by_detail[detail] = numbers.setdefault(repr(trace.details[detail].get("shapes")), len(numbers))
    return by_detail[trace.detail[rows]]
