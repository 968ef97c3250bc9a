"""How much of the CPU's measured time is the profiler's own, and the program's time without it.

A profiler writes an event for everything it records, and every event takes CPU time. It makes nothing faster: if a
step takes longer without the profiler, something else differed between the two runs. Then only CPU spans with almost no
events (a loader, a copy from pageable memory) can account for the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernellab.traces.trace import Column, Kind, Trace
from kernellab.traceview.view import View

Times = npt.NDArray[np.float64]

# Upper bound on the cost of an operator with its event, on any machine: time of a span beyond it is other work.
MAX_OPERATOR_NS = 50_000.0
# Upper bound on `stretch`. The same copy of pageable memory was seen to take 1 ms and 8 ms in one trace; a larger
# difference is not explained.
MAX_STRETCH = 10.0
_MIN_PROGRAM_SHARE = 0.1  # of a span's measured time, however many events the profiler wrote in it
# The cost of an event for the profiled program, in tenths of an operator's. PyTorch 2.13 on a CPU, November 2026:
# 0.2 µs for a Python call, 1.5 to 4 µs for an operator with its shapes. Callbacks record CUDA calls, in about 1 µs.
_EVENT_TENTHS = {Kind.OPERATOR: 10, Kind.RANGE: 10, Kind.CALL: 5, Kind.PYTHON: 1, Kind.MODULE: 1}
# The factor by which PyTorch's profiler slows a CPU that only launches: without Python calls and shapes, with one of
# them, with both. Steps of an MLP, November 2026: 1.5, 1.8 to 1.9, 2.2 to 2.6 on a CPU (PyTorch 2.13), 2.4 with both
# beside an H200 (2.11).
_SLOWDOWN = (1.5, 1.8, 2.4)
LOW, TYPICAL, HIGH = 0.5, 1.0, 1.5  # of the excess in that factor: other machines and versions differ
_LAUNCH_SPAN = 4  # times the median time per event: a slower span contains more than launches
_SAMPLED_OPERATORS = 1000  # searched for shapes


def read_plain_step_us(trace: Trace) -> float | None:
    """The time of a step without the profiler, if the recorder measured it and wrote it into the trace."""
    metadata = trace.metadata.get("kernellab")
    value = metadata.get("plain_step_us") if isinstance(metadata, dict) else None
    return float(value) if isinstance(value, int | float) and value > 0 else None


class EventCounter:
    """Counts the profiler's events on threads in a span of time, in units of one operator event."""

    def __init__(self, trace: Trace) -> None:
        tenths = np.zeros(len(Kind), dtype=np.int64)
        for kind, cost in _EVENT_TENTHS.items():
            tenths[kind] = cost
        order = np.argsort(trace.begin, kind="stable")
        self._begin = trace.begin[order]
        self._tenths = np.append(0, np.cumsum(tenths[trace.kind[order]]))

    def between(self, begin: Column, end: Column) -> Times:
        first, past = np.searchsorted(self._begin, begin), np.searchsorted(self._begin, end)
        return np.asarray((self._tenths[past] - self._tenths[first]) / 10)


@dataclass(frozen=True)
class ProfilerOverhead:
    """The correction from measured times to the times of the program without the profiler."""

    operator_ns: float = 0.0  # overhead per operator event; other events are counted in operators
    stretch: float = 1.0  # factor on time that the profiler cannot have slowed
    scale: float = 1.0  # factor on all time, if slowed and unslowed time cannot be separated

    def program_time(self, measured: Column, events: Times) -> Times:
        """The program's own time in spans of this measured time and number of events."""
        without_events = np.maximum(measured - self.operator_ns * events, _MIN_PROGRAM_SHARE * measured)
        unslowed = np.maximum(measured - MAX_OPERATOR_NS * events, 0)
        return np.asarray(self.scale * (without_events + (self.stretch - 1) * unslowed))


def estimate_operator_ns(view: View, level: float, measured: Column, events: Times) -> float:
    """The overhead per operator event, at a level of the typical slowdown (LOW, TYPICAL, HIGH).

    `measured` and `events` describe the CPU's spans. The result is 0 for Nsight Systems, whose overhead is not known.
    """
    if view.trace.source != "kineto" or not events.any():
        return 0.0
    sample = view.operators.rows[:: max(len(view.operators) // _SAMPLED_OPERATORS, 1)]
    has_shapes = any("shapes" in view.trace.details_of(int(row)) for row in sample)
    has_python = len(view.python_calls) > 0
    slowdown = 1 + level * (_SLOWDOWN[int(has_shapes) + int(has_python)] - 1)
    # A few spans contain a loader or a wait. The others are launches, and show the time per event with its work.
    with_events = np.flatnonzero(events > 0)
    per_event = measured[with_events] / events[with_events]
    launches = with_events[per_event <= _LAUNCH_SPAN * _weighted_median(per_event, events[with_events])]
    return (1 - 1 / slowdown) * float(measured[launches].sum() / events[launches].sum())


def _weighted_median(values: Times, weights: Times) -> float:
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)])
