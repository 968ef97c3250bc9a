"""Which of the optimizers' steps end the program's own, where several optimizers take turns.

A GAN's two step once each in a step of the program. Whoever collected the trace counted by the optimizer that steps
first, and may have written how many steps it recorded; otherwise optimizers are told apart by what they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernellab.traces.trace import Column, Rows, Trace
from kernellab.traceview.row_tree import RowTree, distinct

RANGES = r"^Optimizer\.step#"
_RARE = 3  # times less often than the most frequent: a first step makes the state, and looks like no other


@dataclass(frozen=True)
class Recorded:
    """The steps a trace is of, as its collector numbered them."""

    first: int
    count: int


def recorded(trace: Trace) -> Recorded | None:
    about = trace.metadata.get("kernellab")
    stretches = about.get("steps") if isinstance(about, dict) else None
    known = stretches if isinstance(stretches, list) else []
    active = [one for one in known if isinstance(one, dict) and one.get("phase") == "active"]
    first, last = (active[-1].get(key) for key in ("first", "last")) if active else (None, None)
    if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last):
        return None
    return Recorded(first, last - first + 1)


def leading(ranges: RowTree, found: Rows, operators: RowTree, trace: Trace, told: Recorded | None) -> Rows:
    """Of optimizers' ranges, in the order of time, those that end steps."""
    if not len(found) or (told is not None and told.count >= len(found)):
        return found
    if told is None:
        groups = list(_groups(ranges.name[found]))
        return _alike(ranges, found, operators, trace) if len(groups) == 1 else found[groups[0]]
    groups = [group for group in _groups(ranges.name[found]) if len(group) == told.count]
    # A recording begun in the middle begins after the leader's step, and ends with one.
    from_start = told.first == 0
    if groups:
        return found[groups[0] if from_start else max(groups, key=lambda group: int(group[-1]))]
    turns = np.arange(told.count) if from_start else np.arange(1, told.count + 1)
    return found[turns * len(found) // told.count - (0 if from_start else 1)]


def _groups(labels: Column) -> Iterator[Rows]:
    """Positions by label, the first to come first."""
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    for label in np.argsort(first, kind="stable").tolist():
        yield np.flatnonzero(which.reshape(-1) == label)


def _alike(ranges: RowTree, found: Rows, operators: RowTree, trace: Trace) -> Rows:
    """Optimizers of one name differ by the operators in their steps, and by these operators' shapes."""
    mine = np.flatnonzero(operators.lane == ranges.lane[found[0]])
    begins = operators.begin[mine]
    low, high = (np.searchsorted(begins, edge) for edge in (ranges.begin[found], ranges.end[found]))
    sums = [np.append(0, np.cumsum(of)) for of in (operators.name[mine] + 1, _shapes(trace, operators.rows[mine]))]
    _, which = distinct(high - low, *(total[high] - total[low] for total in sums))
    groups = list(_groups(which))
    most = max(map(len, groups))
    often = [group for group in groups if len(group) > 2 and _RARE * len(group) >= most]
    return found[often[0]] if len(often) > 1 else found


def _shapes(trace: Trace, rows: Rows) -> Column:
    """A number for each row's shapes: details tell of scalars too, and those change from step to step."""
    known: dict[str, int] = {}
    number = np.zeros(len(trace.details), dtype=np.int64)
    for detail in np.unique(trace.detail[rows]).tolist():
        number[detail] = known.setdefault(repr(trace.details[detail].get("shapes")), len(known))
    return number[trace.detail[rows]]
