"""What being watched does to a program: how much of the CPU's time is the profiler's.

A profiler writes a row for all it sees, and every row takes time. It never makes anything faster: where a program takes
longer without it, something went otherwise that day. Rows stay as they are then, and stretches of the CPU with next to
no rows in them (a loader, a copy from pageable memory) are what can have taken longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernellab.traces.trace import Column, Trace
from kernellab.traceview.view import View

Times = npt.NDArray[np.float64]

# No machine takes longer over an operator, watched or not: what a stretch takes beyond is not for its rows.
MOST_NS = 50_000.0
# Times: the same copy of pageable memory was seen to take 1 ms and 8 ms in one trace. What differs by more than this is
# not understood.
MOST_LONGER = 10.0
_LEAST = 0.1  # of a stretch's measured time is the program's, however much the profiler wrote
# How many times as long PyTorch's profiler makes a CPU that does nothing but launch: without Python calls and shapes,
# with one of them, with both. An MLP's steps, November 2026: 1.5, 1.8 to 1.9, 2.2 to 2.6 on a CPU (PyTorch 2.13), 2.4
# with both beside an H200 (2.11).
_SLOWED = (1.5, 1.8, 2.4)
CHEAPEST, USUAL, DEAREST = 0.5, 1.0, 1.5  # parts of that: other machines, other versions
_LAUNCHES = 4  # times the usual per row: what a stretch takes beyond is something else
_SHAPES_IN = 1000  # operators analysis at


def plain_step_us(trace: Trace) -> float | None:
    """A step's time without the profiler: whoever collected the trace may have taken it."""
    about = trace.metadata.get("kernellab")
    said = about.get("plain_step_us") if isinstance(about, dict) else None
    return float(said) if isinstance(said, int | float) and said > 0 else None


@dataclass(frozen=True)
class ProfilerOverhead:
    """What is taken from measured times, and added, to have those of the program alone."""

    row_ns: float = 0.0  # for each operator written; other rows are counted in operators
    longer: float = 1.0  # times, of what the profiler cannot have slowed
    scale: float = 1.0  # of all of it, where nothing tells what the profiler slowed from what it did not

    def kept(self, spent: Column, written: Times) -> Times:
        """The program's own time of stretches in which so much was written."""
        own = np.maximum(spent - self.row_ns * written, _LEAST * spent)
        return np.asarray(self.scale * (own + (self.longer - 1) * np.maximum(spent - MOST_NS * written, 0)))


def row_ns(view: View, part: float, spent: Column, written: Times) -> float:
    """What an operator's row costs in stretches in which so much was written, the profiler costing a part of the usual.

    Nothing where that is not known: Nsight Systems slows other things.
    """
    if view.trace.source != "kineto" or not written.any():
        return 0.0
    some = view.operators.rows[:: max(len(view.operators) // _SHAPES_IN, 1)]
    shapes = any("shapes" in view.trace.details_of(int(row)) for row in some)
    times = 1 + part * (_SLOWED[int(shapes) + int(len(view.pythons) > 0)] - 1)
    # Few stretches hold a loader or a wait; the others are launches, and tell what a row takes with the work it is for.
    wrote = np.flatnonzero(written > 0)
    each = spent[wrote] / written[wrote]
    launches = wrote[each <= _LAUNCHES * _median(each, written[wrote])]
    return (1 - 1 / times) * float(spent[launches].sum() / written[launches].sum())


def _median(values: Times, weights: Times) -> float:
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)])
