"""Compares two traces: what got slower, by operator and by kernel. All times are per step.

The time of a step is the one without the profiler if both traces state it, so that the profiler's overhead is not
mistaken for the program's. Operators and kernels are compared as recorded.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from kernellab.traces.trace import Column, Trace
from kernellab.traceview.profiler_overhead import read_plain_step_us
from kernellab.traceview.row_tree import sum_by_key
from kernellab.traceview.view import View

Table = dict[str, tuple[float, float]]  # by name: microseconds and count, per step


class StepChange(TypedDict):
    a: float
    b: float
    ratio: float | None
    as_profiled: bool  # with the profiler, because not both traces state the time without it


class Difference(TypedDict):
    """One operator or kernel in both traces."""

    name: str
    a_us: float
    b_us: float
    change_us: float
    ratio: float | None
    a_count: float
    b_count: float


class ComparisonDocument(TypedDict):
    by: str  # `gpu` or `cpu`: whose time the operators are compared by
    step_us: StepChange
    operators: list[Difference]
    kernels: list[Difference]
    notes: list[str]


def compare(a: Trace, b: Trace) -> ComparisonDocument:
    """`b` relative to `a`: the largest slowdown first, the largest speed-up last."""
    views = View(a), View(b)
    on_gpu = all(len(view.gpu_rows) for view in views)
    plain_us = [us for us in (read_plain_step_us(trace) for trace in (a, b)) if us]
    profiled_us = [view.steps.duration_ns / view.steps.count / 1e3 for view in views]
    as_profiled = len(plain_us) < len(views)
    before, after = profiled_us if as_profiled else plain_us
    notes = [] if on_gpu else ["Not both traces contain GPU activity: operators are compared by CPU time."]
    return {
        "by": "gpu" if on_gpu else "cpu",
        "step_us": {
            "a": round(before, 3),
            "b": round(after, 3),
            "ratio": _ratio(before, after),
            "as_profiled": as_profiled,
        },
        "operators": _differences(*(_operators(view, on_gpu=on_gpu) for view in views)),
        "kernels": _differences(*(_kernels(view) for view in views)) if on_gpu else [],
        "notes": notes,
    }


def _operators(view: View, *, on_gpu: bool) -> Table:
    tree = view.operators
    if on_gpu:
        at = view.gpu_operators
        counted = (at >= 0) & view.gpu_counted
        own = sum_by_key(at[counted], view.gpu_ns[counted], len(tree))
    else:
        own = tree.self_time()
    inside = view.counted(tree)
    return _table(view, tree.name[inside], own[inside])


def _kernels(view: View) -> Table:
    counted = view.gpu_counted
    return _table(view, view.trace.name[view.gpu_rows[counted]], view.gpu_ns[counted])


def _table(view: View, names: Column, times: Column) -> Table:
    total, count = view.sum_by_name(names, times), np.bincount(names, minlength=len(view.trace.names))
    steps = view.steps.count
    return {
        view.trace.names[name]: (int(total[name]) / steps / 1e3, int(count[name]) / steps)
        for name in np.flatnonzero(count).tolist()
    }


def _differences(a: Table, b: Table) -> list[Difference]:
    rows: list[Difference] = []
    for name in a.keys() | b.keys():
        (before, a_count), (after, b_count) = a.get(name, (0.0, 0.0)), b.get(name, (0.0, 0.0))
        if before or after:
            rows.append(
                {
                    "name": name,
                    "a_us": round(before, 3),
                    "b_us": round(after, 3),
                    "change_us": round(after - before, 3),
                    "ratio": _ratio(before, after),
                    "a_count": round(a_count, 3),
                    "b_count": round(b_count, 3),
                }
            )
    return sorted(rows, key=lambda row: (-row["change_us"], row["name"]))


def _ratio(before: float, after: float) -> float | None:
    return round(after / before, 4) if before else None
