"""Where the CPU's time goes where there is no GPU: Python's functions and operators side by side, of all the time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.analysis.replay import merged, overlaps
from kernellab.traces.trace import Column, Kind, Rows
from kernellab.traceview import source_lines as source
from kernellab.traceview.places import UNKNOWN_PLACE, Place, Places
from kernellab.traceview.row_tree import Mask, RowTree, distinct, take, sums
from kernellab.traceview.view import View

# Traces recorded before the profiler had its present folder name it `collecting`.
_RECORDING = r"(^|/)(torch/profiler|kernellab/(profiler|running/programs|collecting))/"
_COMPILING = r"\(dynamo_timed\)$"
_PYTHON = (Kind.PYTHON, Kind.MODULE)
_MOST_PLACED = 20_000  # calls of an operator, the longest: more come from the same lines


@dataclass(frozen=True)
class Spent:
    """Of the program's thread, during its steps. Of what is left of `whole_ns` nothing was recorded.

    `operator` has most time of its own among operators, and most of that at `operator_place`; among lines and functions
    of the program, `place` has, less the operators it calls. What torch.compile takes to compile is of neither.
    """

    whole_ns: int
    operators_ns: int
    python_ns: int
    compiling_ns: int
    compiling_place: Place
    operator: str
    operator_ns: int
    operator_place: Place
    place: Place
    place_ns: int

    @property
    def most_ns(self) -> int:
        return max(self.compiling_ns, self.operator_ns, self.place_ns)

    def document(self) -> dict[str, Any]:
        return {
            "whole_us": round(self.whole_ns / 1e3, 3),
            "operators_us": round(self.operators_ns / 1e3, 3),
            "python_us": round(self.python_ns / 1e3, 3),
            "compiling_us": round(self.compiling_ns / 1e3, 3),
            "dearest": {
                "operator": self.operator,
                "operator_us": round(self.operator_ns / 1e3, 3),
                "place": str(self.place),
                "place_us": round(self.place_ns / 1e3, 3),
            },
        }


def spent(view: View, places: Places) -> Spent:
    trace, steps = view.trace, view.steps
    compiling = _compiling(view)
    compiled = merged(list(zip(trace.begin[compiling].tolist(), view.end[compiling].tolist(), strict=True)))

    def counted(begin: Column, end: Column) -> Column:
        """Of the steps, and no compiling."""
        begin, end = (np.clip(moments, steps.first_ns, steps.asked_ns) for moments in (begin, end))
        return np.asarray(end - begin - overlaps(compiled, begin, end))

    nest = RowTree(trace, np.union1d(_operators(view), _on_main(view, *_PYTHON)))
    own = _self_time(nest, counted(nest.begin, nest.end))
    is_operator = trace.kind[nest.rows] == Kind.OPERATOR
    python = np.searchsorted(places.nest.rows, nest.rows[~is_operator])
    watching = _of_the_profiler(view, places)[python]
    whole = steps.asked_ns - steps.first_ns - int(own[~is_operator][watching].sum())
    python, alone = python[~watching], own[~is_operator][~watching]
    place, place_ns = _dearest_place(places, python, alone)
    rows, times = nest.rows[is_operator], own[is_operator]
    operator, operator_place, operator_ns = _dearest_operator(places, rows, times)
    uncompiled = int(counted(np.array([steps.first_ns]), np.array([steps.asked_ns]))[0])
    parts = int(times.sum()), int(alone.sum()), steps.asked_ns - steps.first_ns - uncompiled
    return Spent(
        max(whole, sum(parts)), *parts, places.of(compiling[:1])[0] if len(compiling) else UNKNOWN_PLACE,
        operator, operator_ns, operator_place, place, place_ns,
    )  # fmt: skip


def _on_main(view: View, *kinds: Kind) -> Rows:
    rows = view.trace.rows(*kinds)
    return np.asarray(rows[view.trace.lane[rows] == view.main])


def _compiling(view: View) -> Rows:
    """Marks of torch.compile's on its own work, the longest first; they lie in each other."""
    rows = _on_main(view, Kind.OPERATOR, Kind.RANGE)
    rows = rows[view.named(_COMPILING)[view.trace.name[rows]]]
    inside = (view.end[rows] > view.steps.first_ns) & (view.trace.begin[rows] < view.steps.asked_ns)
    return rows[inside][np.argsort(-view.trace.duration[rows[inside]], kind="stable")]


def _operators(view: View) -> Rows:
    """Without marks, which lie across Python's calls and are no work: most of one is after the `__enter__` it began in.

    An operator lies in the call that made it, give or take what clocks differ by.
    """
    trace, python = view.trace, view.pythons
    rows = _on_main(view, Kind.OPERATOR)
    at = python.around(trace.lane[rows], trace.begin[rows])
    middle = (trace.begin[rows] + view.end[rows]) // 2
    return rows[(at < 0) | (middle <= take(python.end, at))]


def _of_the_profiler(view: View, places: Places) -> Mask:
    """Which calls of Python are whoever records' own: made by it, and not by the program that it runs."""
    nest = places.nest
    recording = nest.nearest(view.named(_RECORDING)[nest.name])
    inside = take(nest.depth, recording) > take(nest.depth, places.own)
    return np.asarray((recording >= 0) & inside)


def _self_time(nest: RowTree, within: Column) -> Column:
    """Of what counts of each row, what those in it leave."""
    inside = np.flatnonzero(nest.parent >= 0)
    own: Column = np.maximum(within - sums(nest.parent[inside], within[inside], len(nest)), 0)
    return own


def _dearest_operator(places: Places, rows: Rows, own: Column) -> tuple[str, Place, int]:
    """By name; its line is the one that has most of its time, for backward's operators that of their forward."""
    view = places.view
    if not own.any():
        return "", UNKNOWN_PLACE, 0
    names = view.trace.name[rows]
    by_name = view.sum_by_name(names, own)
    most = int(by_name.argmax())
    mine = np.flatnonzero(names == most)
    mine = mine[np.argsort(-own[mine], kind="stable")[:_MOST_PLACED]]
    home = view.forward[np.searchsorted(view.operators.rows, rows[mine])]
    callers = np.where(home >= 0, view.operators.rows[home], rows[mine])
    times: dict[Place, int] = defaultdict(int)
    for place, ns in zip(places.of(callers), own[mine].tolist(), strict=True):
        times[place] += ns
    return view.trace.names[most], max(times, key=times.__getitem__), int(by_name[most])


def _dearest_place(places: Places, positions: Rows, own: Column) -> tuple[Place, int]:
    """Time counts for the innermost function of the user's, apart for each call it makes of somebody else's."""
    nest = places.nest
    if not own.any():
        return UNKNOWN_PLACE, 0
    frame, made = places.own[positions], places.made[positions]
    called = np.where(frame >= 0, take(nest.name, made), nest.name[positions])
    _, which = distinct(take(nest.name, frame), called)
    times = sums(which, own, int(which.max()) + 1)
    most = int(times.argmax())
    at = int(np.where(which == most, own, -1).argmax())
    if made[at] >= 0:
        return places.calls([int(made[at])])[0], int(times[most])
    text = places.view.trace.names[int(nest.name[positions[at]])]
    written = source.frame(text)
    if frame[at] < 0 or written is None:
        return Place(None, None, None, source.called(text)), int(times[most])
    return Place(written.file, written.line, written.function, ""), int(times[most])
