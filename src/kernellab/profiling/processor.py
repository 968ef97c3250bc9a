"""Where the CPU's time goes where there is no GPU: Python's functions and operators side by side, of all the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.profiling import source
from kernellab.profiling.nest import Mask, Nest, distinct, picked, sums
from kernellab.profiling.places import Place, Places
from kernellab.profiling.view import View
from kernellab.traces.trace import NONE, Column, Kind, Rows

_RECORDING = r"(^|/)(torch/profiler|kernellab/collecting)/"
_PYTHON = (Kind.PYTHON, Kind.MODULE)


@dataclass(frozen=True)
class Spent:
    """Of the program's thread, during its steps. Of what is left of `whole_ns` nothing was recorded.

    `operator` has most time of its own among operators; among lines and functions of the program, `place` has, less
    the operators it calls.
    """

    whole_ns: int
    operators_ns: int
    python_ns: int
    operator: str
    operator_ns: int
    operator_row: int
    place: Place
    place_ns: int

    def document(self) -> dict[str, Any]:
        return {
            "whole_us": round(self.whole_ns / 1e3, 3),
            "operators_us": round(self.operators_ns / 1e3, 3),
            "python_us": round(self.python_ns / 1e3, 3),
            "dearest": {
                "operator": self.operator,
                "operator_us": round(self.operator_ns / 1e3, 3),
                "place": str(self.place),
                "place_us": round(self.place_ns / 1e3, 3),
            },
        }


def spent(view: View, places: Places) -> Spent:
    trace, steps = view.trace, view.steps
    rows = trace.rows(Kind.OPERATOR, *_PYTHON)
    nest = Nest(trace, rows[trace.lane[rows] == view.main])
    own = _self_time(nest, steps.first_ns, steps.asked_ns)
    is_operator = trace.kind[nest.rows] == Kind.OPERATOR
    python = np.searchsorted(places.nest.rows, nest.rows[~is_operator])
    watching = _of_the_profiler(view, places)[python]
    whole = steps.asked_ns - steps.first_ns - int(own[~is_operator][watching].sum())
    python, alone = python[~watching], own[~is_operator][~watching]
    place, place_ns = _dearest_place(places, python, alone)
    names, times = nest.name[is_operator], own[is_operator]
    by_name = view.by_name(names, times)
    most = int(by_name.argmax()) if len(by_name) else NONE
    found = bool(len(names)) and by_name[most] > 0
    row = int(nest.rows[is_operator][np.where(names == most, times, -1).argmax()]) if found else NONE
    return Spent(
        max(whole, 0), int(times.sum()), int(alone.sum()), trace.names[most] if found else "",
        int(by_name[most]) if found else 0, row, place, place_ns,
    )  # fmt: skip


def _of_the_profiler(view: View, places: Places) -> Mask:
    """Which calls of Python are whoever records' own: made by it, and not by the program that it runs."""
    nest = places.nest
    recording = nest.nearest(view.named(_RECORDING)[nest.name])
    inside = picked(nest.depth, recording) > picked(nest.depth, places.own)
    return np.asarray((recording >= 0) & inside)


def _self_time(nest: Nest, first: int, last: int) -> Column:
    """Between two moments: frames that were open before the first are cut there."""
    within = np.maximum(np.minimum(nest.end, last) - np.maximum(nest.begin, first), 0)
    inside = np.flatnonzero(nest.parent >= 0)
    own: Column = np.maximum(within - sums(nest.parent[inside], within[inside], len(nest)), 0)
    return own


def _dearest_place(places: Places, positions: Rows, own: Column) -> tuple[Place, int]:
    """Time counts for the innermost function of the user's, apart for each call it makes of somebody else's."""
    nest = places.nest
    if not own.any():
        return Place(None, None, None, ""), 0
    frame, made = places.own[positions], places.made[positions]
    called = np.where(frame >= 0, picked(nest.name, made), nest.name[positions])
    _, which = distinct(picked(nest.name, frame), called)
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
