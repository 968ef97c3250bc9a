"""Time by call stack: the CPU's self time, or the time of the kernels a stack launched."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kernellab.traces.trace import NONE, ON_GPU, Column, Kind, Trace
from kernellab.traceview.steps import mask_step_number

MAX_DEPTH = 256  # frames; time in deeper frames counts for the frame at this depth
UNKNOWN = "(the call that launched it was not recorded)"

_ON_THREADS = (Kind.OTHER, Kind.OPERATOR, Kind.RANGE, Kind.MODULE, Kind.PYTHON, Kind.CALL)


def collapse_stacks(trace: Trace, by: Literal["gpu", "cpu"] = "gpu") -> dict[tuple[str, ...], int]:
    """Nanoseconds by call stack, outermost frame first.

    By "cpu": the duration of a frame without the frames inside it. By "gpu": the duration of each kernel, copy and
    fill, under the stack of the call that launched it; the CUDA calls themselves are left out, because they add nothing
    to the kernel's name. If several threads have stacks, the thread is the outermost frame. Numbered steps are one
    frame, so that their stacks add up.
    """
    stacks = _Stacks(trace, with_calls=by == "cpu")
    times: dict[int, int] = {}
    if by == "cpu":
        rows = trace.rows(*_ON_THREADS)
        for row, time in zip(rows.tolist(), _self_time(trace)[rows].tolist(), strict=True):
            stack = stacks.by_row[row]
            times[stack] = times.get(stack, 0) + time
    else:
        rows = trace.rows(*ON_GPU)
        columns = (trace.launched_by[rows], trace.name[rows], trace.duration[rows])
        for call, name, time in zip(*(column.tolist() for column in columns), strict=True):
            stack = stacks.push(stacks.unknown if call == NONE else stacks.by_row[call], name)
            times[stack] = times.get(stack, 0) + time
    return {stacks.frames(stack): time for stack, time in times.items() if time > 0}


def _self_time(trace: Trace) -> Column:
    """The nanoseconds of each row not taken by the rows directly inside it."""
    inside = np.zeros(len(trace), dtype=np.int64)
    rows = np.flatnonzero(trace.parent != NONE)
    around = trace.parent[rows]
    # A row may end slightly after the row around it, by its own clock.
    shared = np.minimum(trace.end[rows], trace.end[around]) - trace.begin[rows]
    np.add.at(inside, around, np.maximum(shared, 0))
    own: Column = np.maximum(trace.duration - inside, 0)
    return own


class _Stacks:
    """The distinct stacks of a trace. Each is a number, with a frame and the number of the stack that called it."""

    def __init__(self, trace: Trace, *, with_calls: bool) -> None:
        names = [mask_step_number(name) for name in trace.names]
        self._names = [*names, UNKNOWN, *_thread_names(trace)]
        first = {name: number for number, name in reversed(list(enumerate(names)))}
        same = [first[name] for name in names]  # names that became equal share a number
        self._caller, self._frame, self._depth = [NONE], [NONE], [0]  # the first is the empty stack
        self._numbers: dict[tuple[int, int], int] = {}
        self.unknown = self.push(0, len(trace.names))
        several = len(self._names) > len(trace.names) + 1
        roots = [self.push(0, len(trace.names) + 1 + at) if several else 0 for at in range(len(trace.lanes))]
        self.by_row: list[int] = []
        left_out = set() if with_calls else {int(Kind.CALL)}
        columns = (trace.parent, trace.lane, trace.kind, trace.name)
        for parent, lane, kind, name in zip(*(column.tolist() for column in columns), strict=True):
            caller = roots[lane] if parent == NONE else self.by_row[parent]
            self.by_row.append(caller if kind in left_out else self.push(caller, same[name]))

    def push(self, caller: int, name: int) -> int:
        """The stack of a frame called from another stack."""
        if self._depth[caller] >= MAX_DEPTH:
            return caller
        number = self._numbers.setdefault((caller, name), len(self._frame))
        if number == len(self._frame):
            self._caller.append(caller)
            self._frame.append(name)
            self._depth.append(self._depth[caller] + 1)
        return number

    def frames(self, stack: int) -> tuple[str, ...]:
        names = []
        while stack:
            names.append(self._names[self._frame[stack]])
            stack = self._caller[stack]
        return tuple(reversed(names))


def _thread_names(trace: Trace) -> list[str]:
    """The outermost frame of each lane; none if the program has only one thread."""
    lanes = trace.lane[trace.kind != Kind.OTHER]  # lanes of the profiler itself are not threads of the program
    used = {trace.lanes[at] for at in np.unique(lanes).tolist() if not trace.lanes[at].on_gpu}
    if len(used) < 2:
        return []
    one_process = len({lane.process for lane in used}) == 1
    return [lane.name if one_process else f"{lane.process}, {lane.name}" for lane in trace.lanes]
