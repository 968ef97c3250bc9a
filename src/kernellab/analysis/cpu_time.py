"""Where the CPU's time goes in a program without a GPU: Python functions and operators, as parts of the whole time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from kernellab.analysis import intervals
from kernellab.findings.place import UNKNOWN_PLACE, Place
from kernellab.traces.trace import Column, Kind, Mask, Rows
from kernellab.traceview import source_lines as source
from kernellab.traceview.places import Places
from kernellab.traceview.row_tree import RowTree, distinct, sum_by_key, take
from kernellab.traceview.view import View

# In older traces the profiler's folder is named `collecting`.
_RECORDING = r"(^|/)(torch/profiler|kernellab/(profiler|running/programs|collecting))/"
_COMPILING = r"\(dynamo_timed\)$"
_PYTHON = (Kind.PYTHON, Kind.MODULE)
_MAX_LOCATED = 20_000  # the longest calls of an operator; further calls come from the same lines


class LargestDocument(TypedDict):
    operator: str
    operator_us: float
    place: str
    place_us: float


class CpuDocument(TypedDict):
    whole_us: float
    operators_us: float
    python_us: float
    compiling_us: float
    dearest: LargestDocument


@dataclass(frozen=True)
class CpuTime:
    """The time of the program's main thread during its steps. The rest of `whole_ns` beyond the parts was not recorded.

    `operator` is the operator with most self time, `operator_place` the line with most of it. `place` is the line or
    function of the program with most time outside operators. Compilation by torch.compile counts as neither.
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

    def document(self) -> CpuDocument:
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


def measure_cpu_time(view: View, places: Places) -> CpuTime:
    trace, steps = view.trace, view.steps
    compiling = _compiling_rows(view)
    compiled = intervals.merge(list(zip(trace.begin[compiling].tolist(), view.end[compiling].tolist(), strict=True)))

    def counted(begin: Column, end: Column) -> Column:
        """The part of each span that lies in the steps and is not compilation."""
        begin, end = (np.clip(moments, steps.begin_ns, steps.cpu_end_ns) for moments in (begin, end))
        return np.asarray(end - begin - intervals.overlap(compiled, begin, end))

    tree = RowTree(trace, np.union1d(_operator_rows(view), _main_rows(view, *_PYTHON)))
    own = _self_time(tree, counted(tree.begin, tree.end))
    is_operator = trace.kind[tree.rows] == Kind.OPERATOR
    python, python_own = np.searchsorted(places.tree.rows, tree.rows[~is_operator]), own[~is_operator]
    recording = _is_recording(view, places)[python]
    whole = steps.cpu_end_ns - steps.begin_ns - int(python_own[recording].sum())
    python, python_own = python[~recording], python_own[~recording]
    place, place_ns = _largest_place(places, python, python_own)
    operator_own = own[is_operator]
    operator, operator_place, operator_ns = _largest_operator(places, tree.rows[is_operator], operator_own)
    uncompiled = int(counted(np.array([steps.begin_ns]), np.array([steps.cpu_end_ns]))[0])
    operators_ns, python_ns = int(operator_own.sum()), int(python_own.sum())
    compiling_ns = steps.cpu_end_ns - steps.begin_ns - uncompiled
    return CpuTime(
        whole_ns=max(whole, operators_ns + python_ns + compiling_ns),
        operators_ns=operators_ns,
        python_ns=python_ns,
        compiling_ns=compiling_ns,
        compiling_place=places.locate_rows(compiling[:1])[0] if len(compiling) else UNKNOWN_PLACE,
        operator=operator,
        operator_ns=operator_ns,
        operator_place=operator_place,
        place=place,
        place_ns=place_ns,
    )


def _main_rows(view: View, *kinds: Kind) -> Rows:
    rows = view.trace.rows(*kinds)
    return np.asarray(rows[view.trace.lane[rows] == view.main_lane])


def _compiling_rows(view: View) -> Rows:
    """torch.compile's marks of its own work within the steps, longest first. They are nested."""
    rows = _main_rows(view, Kind.OPERATOR, Kind.RANGE)
    rows = rows[view.names_matching(_COMPILING)[view.trace.name[rows]]]
    inside = (view.end[rows] > view.steps.begin_ns) & (view.trace.begin[rows] < view.steps.cpu_end_ns)
    return rows[inside][np.argsort(-view.trace.duration[rows[inside]], kind="stable")]


def _operator_rows(view: View) -> Rows:
    """Operators, without marks. A mark is not work: it begins in an `__enter__` and ends after that call.

    An operator is inside the Python call that made it, up to differences between clocks.
    """
    trace, python = view.trace, view.python_calls
    rows = _main_rows(view, Kind.OPERATOR)
    at = python.around(trace.lane[rows], trace.begin[rows])
    middle = (trace.begin[rows] + view.end[rows]) // 2
    return rows[(at < 0) | (middle <= take(python.end, at))]


def _is_recording(view: View, places: Places) -> Mask:
    """Which Python calls belong to the recorder: made by it, and not by the program it runs."""
    tree = places.tree
    recorder = tree.nearest(view.names_matching(_RECORDING)[tree.name])
    inside = take(tree.depth, recorder) > take(tree.depth, places.user_frame)
    return np.asarray((recorder >= 0) & inside)


def _self_time(tree: RowTree, counted: Column) -> Column:
    """The counted time of each row without that of the rows directly inside it."""
    inside = np.flatnonzero(tree.parent >= 0)
    own: Column = np.maximum(counted - sum_by_key(tree.parent[inside], counted[inside], len(tree)), 0)
    return own


def _largest_operator(places: Places, rows: Rows, own: Column) -> tuple[str, Place, int]:
    """The operator with most self time, and the line with most of it; for backward, the line of the forward."""
    view = places.view
    if not own.any():
        return "", UNKNOWN_PLACE, 0
    names = view.trace.name[rows]
    by_name = view.sum_by_name(names, own)
    largest = int(by_name.argmax())
    of_name = np.flatnonzero(names == largest)
    of_name = of_name[np.argsort(-own[of_name], kind="stable")[:_MAX_LOCATED]]
    forward = view.forward_operator[np.searchsorted(view.operators.rows, rows[of_name])]
    callers = np.where(forward >= 0, view.operators.rows[forward], rows[of_name])
    times: dict[Place, int] = defaultdict(int)
    for place, ns in zip(places.locate_rows(callers), own[of_name].tolist(), strict=True):
        times[place] += ns
    return view.trace.names[largest], max(times, key=times.__getitem__), int(by_name[largest])


def _largest_place(places: Places, positions: Rows, own: Column) -> tuple[Place, int]:
    """The place with most time, by the user's innermost function, separately for each call into other code."""
    tree = places.tree
    if not own.any():
        return UNKNOWN_PLACE, 0
    frame, call = places.user_frame[positions], places.user_call[positions]
    called = np.where(frame >= 0, take(tree.name, call), tree.name[positions])
    _, which = distinct(take(tree.name, frame), called)
    times = sum_by_key(which, own, int(which.max()) + 1)
    largest = int(times.argmax())
    at = int(np.where(which == largest, own, -1).argmax())
    if call[at] >= 0:
        return places.locate_calls([int(call[at])])[0], int(times[largest])
    name = places.view.trace.names[int(tree.name[positions[at]])]
    parsed = source.parse_frame(name)
    if frame[at] < 0 or parsed is None:
        return Place(None, None, None, source.called_as(name)), int(times[largest])
    return Place(parsed.file, parsed.line, parsed.function, ""), int(times[largest])
