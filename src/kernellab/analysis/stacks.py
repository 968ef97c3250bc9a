"""Call stacks with the time spent in each alone: the CPU's, or that of the kernels a stack started."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from kernellab.traces.trace import NONE, ON_GPU, Column, Kind, Trace

DEEPEST = 256  # frames; what lies deeper counts for the frame at this depth
UNKNOWN = "(the call that started it was not recorded)"

_STEP = re.compile(r"^(step[_ #-]?|ProfilerStep#)\d+\b")
_ON_THREADS = (Kind.OTHER, Kind.OPERATOR, Kind.RANGE, Kind.MODULE, Kind.PYTHON, Kind.CALL)


def collapsed(trace: Trace, by: Literal["gpu", "cpu"] = "gpu") -> dict[tuple[str, ...], int]:
    """Nanoseconds by call stack, outermost frame first.

    By "cpu": what a frame took less what the frames inside it took. By "gpu": what each kernel, copy and fill took,
    under the stack of the call that started it; the calls of CUDA's runtime themselves are left out, for they say
    nothing that the kernel does not. Where several threads have stacks, the thread comes first. Ranges that number the
    steps of a program are one frame: what steps have in common is the question here.
    """
    stacks = _Stacks(trace, calls=by == "cpu")
    spent: dict[int, int] = {}
    if by == "cpu":
        rows = trace.rows(*_ON_THREADS)
        for stack, time in zip((stacks.of[row] for row in rows.tolist()), alone(trace)[rows].tolist(), strict=True):
            spent[stack] = spent.get(stack, 0) + time
    else:
        rows = trace.rows(*ON_GPU)
        columns = (trace.launched_by[rows], trace.name[rows], trace.duration[rows])
        for call, name, time in zip(*(column.tolist() for column in columns), strict=True):
            stack = stacks.inside(stacks.unknown if call == NONE else stacks.of[call], name)
            spent[stack] = spent.get(stack, 0) + time
    return {stacks.frames(stack): time for stack, time in spent.items() if time > 0}


def alone(trace: Trace) -> Column:
    """Of each row, the nanoseconds not taken by the rows directly inside it."""
    inside = np.zeros(len(trace), dtype=np.int64)
    rows = np.flatnonzero(trace.parent != NONE)
    around = trace.parent[rows]
    # A row may end a little later than the one around it, by its own clock.
    shared = np.minimum(trace.end[rows], trace.end[around]) - trace.begin[rows]
    np.add.at(inside, around, np.maximum(shared, 0))
    own: Column = np.maximum(trace.duration - inside, 0)
    return own


class _Stacks:
    """The distinct stacks of a trace, each a number: a frame, and the number of the stack it was called from."""

    def __init__(self, trace: Trace, *, calls: bool) -> None:
        names = [_STEP.sub(r"\1*", name) for name in trace.names]
        self._names = [*names, UNKNOWN, *_threads(trace)]
        same = {name: number for number, name in reversed(list(enumerate(names)))}
        self._same = [same[name] for name in names]
        self._outer, self._frame, self._depth = [NONE], [NONE], [0]  # the first is the empty stack
        self._known: dict[tuple[int, int], int] = {}
        self.unknown = self.inside(0, len(trace.names))
        several = len(self._names) > len(trace.names) + 1
        roots = [self.inside(0, len(trace.names) + 1 + at) if several else 0 for at in range(len(trace.lanes))]
        self.of: list[int] = []  # of each row
        left_out = set() if calls else {int(Kind.CALL)}
        columns = (trace.parent, trace.lane, trace.kind, trace.name)
        for around, lane, kind, called in zip(*(column.tolist() for column in columns), strict=True):
            name = self._same[called]
            outer = roots[lane] if around == NONE else self.of[around]
            self.of.append(outer if kind in left_out else self.inside(outer, name))

    def inside(self, outer: int, name: int) -> int:
        """The stack of a frame called from another stack."""
        if self._depth[outer] >= DEEPEST:
            return outer
        number = self._known.setdefault((outer, name), len(self._frame))
        if number == len(self._frame):
            self._outer.append(outer)
            self._frame.append(name)
            self._depth.append(self._depth[outer] + 1)
        return number

    def frames(self, stack: int) -> tuple[str, ...]:
        found = []
        while stack:
            found.append(self._names[self._frame[stack]])
            stack = self._outer[stack]
        return tuple(reversed(found))


def _threads(trace: Trace) -> list[str]:
    """What each lane is called as the outermost frame; none where there is one thread, which goes without saying."""
    known = trace.lane[trace.kind != Kind.OTHER]  # a profiler's own lanes are no threads of the program
    used = {trace.lanes[at] for at in np.unique(known).tolist() if not trace.lanes[at].on_gpu}
    if len(used) < 2:
        return []
    one = len({lane.process for lane in used}) == 1
    return [lane.name if one else f"{lane.process}, {lane.name}" for lane in trace.lanes]
