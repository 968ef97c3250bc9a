"""Two traces compared: what got slower, by operator and by kernel. Times are of a step.

A step's own time is the one without the profiler where both traces tell it, so that a program is not blamed for being
watched; operators and kernels are as they were recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.traces.trace import Column, Trace
from kernellab.traceview import profiler_overhead as watched
from kernellab.traceview.row_tree import sums
from kernellab.traceview.view import View

Table = dict[str, tuple[float, float]]  # by name: microseconds and how many, a step


def compare(a: Trace, b: Trace) -> dict[str, Any]:
    """`b` against `a`: what changed most first, slower before faster."""
    views = View(a), View(b)
    on_gpu = all(len(view.gpu) for view in views)
    plain = [watched.plain_step_us(trace) for trace in (a, b)]
    seen = [view.steps.duration_ns / view.steps.count / 1e3 for view in views]
    known = [us for us in plain if us]
    before, after = known if len(known) == len(plain) else seen
    notes = [] if on_gpu else ["Not both traces hold GPU activity: operators are compared by CPU time."]
    return {
        "by": "gpu" if on_gpu else "cpu",
        "step_us": {
            "a": round(before, 3),
            "b": round(after, 3),
            "ratio": _ratio(before, after),
            "as_profiled": len(known) < len(plain),
        },
        "operators": _changes(*(_operators(view, on_gpu=on_gpu) for view in views)),
        "kernels": _changes(*(_kernels(view) for view in views)) if on_gpu else [],
        "notes": notes,
    }


def _operators(view: View, *, on_gpu: bool) -> Table:
    nest = view.operators
    if on_gpu:
        at = view.gpu_operators
        mine = (at >= 0) & view.gpu_counted
        own = sums(at[mine], view.gpu_ns[mine], len(nest))
    else:
        own = nest.self_time()
    inside = view.told(nest)
    return _table(view, nest.name[inside], own[inside])


def _kernels(view: View) -> Table:
    mine = view.gpu_counted
    return _table(view, view.trace.name[view.gpu[mine]], view.gpu_ns[mine])


def _table(view: View, names: Column, times: Column) -> Table:
    spent, count = view.sum_by_name(names, times), np.bincount(names, minlength=len(view.trace.names))
    steps = view.steps.count
    return {
        view.trace.names[name]: (int(spent[name]) / steps / 1e3, int(count[name]) / steps)
        for name in np.flatnonzero(count).tolist()
    }


def _changes(a: Table, b: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in a.keys() | b.keys():
        (before, times), (after, again) = a.get(name, (0.0, 0.0)), b.get(name, (0.0, 0.0))
        if before or after:
            rows.append(
                {
                    "name": name,
                    "a_us": round(before, 3),
                    "b_us": round(after, 3),
                    "change_us": round(after - before, 3),
                    "ratio": _ratio(before, after),
                    "a_count": round(times, 3),
                    "b_count": round(again, 3),
                }
            )
    return sorted(rows, key=lambda row: (-row["change_us"], row["name"]))


def _ratio(before: float, after: float) -> float | None:
    return round(after / before, 4) if before else None
