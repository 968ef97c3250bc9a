"""Where a program's steps begin and end: by ranges, by its optimizer, else by the calls of its model."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kernellab.traces.trace import Column, Kind
from kernellab.traceview import optimizer_steps as optimizers
from kernellab.traceview.row_tree import take, sums

if TYPE_CHECKING:
    from kernellab.traceview.view import View

# The program's own steps before the profiler's: a profiler's step ends where `prof.step()` happens to stand.
_STEPS = (re.compile(r"^step[_ #-]?\d+\b"), re.compile(r"^ProfilerStep#\d+"))
_ON_THREADS = (Kind.OPERATOR, Kind.RANGE, Kind.MODULE, Kind.PYTHON, Kind.CALL)
_LONGEST = 80
_CALLS = 3  # of a model, besides its first: fewer are no loop
_NUMBER = re.compile(r"_\d+$")  # that a profiler gives a module, to tell those of one class apart


def is_step(name: str) -> bool:
    return any(pattern.match(name) for pattern in _STEPS)


@dataclass(frozen=True)
class Steps:
    """Steps from end to end of their ranges, so that what lies between two (a loader) is of the second.

    The first begins as long before its range as others do. The last ends when its work on the GPU is over; what the
    CPU asks for meanwhile, after `asked_ns`, is of no step. `marked`: there was something to go by; `calls_of`: the
    module whose calls they are, where nothing else told them apart.
    """

    begin: Column
    end: Column
    asked_ns: int
    marked: bool
    calls_of: str = ""

    @property
    def count(self) -> int:
        return len(self.begin)

    @property
    def first_ns(self) -> int:
        return int(self.begin[0])

    @property
    def last_ns(self) -> int:
        return int(self.end[-1])

    @property
    def duration_ns(self) -> int:
        return max(self.last_ns - self.first_ns, 0)

    @property
    def span_ns(self) -> int:
        """What they took, to divide by."""
        return max(self.duration_ns, 1)


def found(view: View) -> Steps:
    return _by_ranges(view) or _by_optimizer(view) or _by_model(view) or _whole(view)


def _by_ranges(view: View) -> Steps | None:
    ranges = view.ranges
    for pattern in _STEPS:
        at = np.flatnonzero(view.named(pattern)[ranges.name] & (ranges.lane == view.main))
        if len(at):
            return _steps(view, ranges.begin[at], ranges.end[at])
    return None


def _by_optimizer(view: View) -> Steps | None:
    """From the end of an optimizer's step to that of its next one."""
    ranges, told = view.ranges, optimizers.recorded(view.trace)
    at = np.flatnonzero(view.named(optimizers.RANGES)[ranges.name] & (ranges.lane == view.main))
    ends = np.sort(ranges.end[optimizers.leading(ranges, at, view.operators, view.trace, told)])
    if told is None or not len(ends):
        return _steps(view, ends[:-1], ends[1:]) if len(ends) > 2 else None
    began = int(view.trace.begin[view.trace.lane == view.main].min())
    if told.first == 0 and len(ends) > 1:  # what comes before the first step of a program is no step
        began = max(began, int(ends[0] - np.median(np.diff(ends))))
    return _steps(view, np.append(began, ends[:-1]), ends)


def _by_model(view: View) -> Steps | None:
    """From the end of a call of the outermost module to that of its next one: serving a model has no optimizer.

    What comes before the second call is no step: loading the model, and a first call that is like no other.
    """
    nest = view.modules
    roots = np.flatnonzero((nest.parent < 0) & (nest.lane == view.main))
    if len(roots) <= _CALLS:
        return None
    name = int(sums(nest.name[roots], nest.duration[roots], len(view.trace.names)).argmax())
    calls = roots[nest.name[roots] == name]
    if len(calls) <= _CALLS:
        return None
    steps = _steps(view, nest.end[calls[:-1]], nest.end[calls[1:]])
    return replace(steps, calls_of=_NUMBER.sub("", view.trace.names[name][:_LONGEST]))


def _whole(view: View) -> Steps:
    busy = np.append(view.gpu, view.calls[view.calls >= 0]) if len(view.gpu) else view.trace.rows(*_ON_THREADS)
    first = int(view.trace.begin[busy].min()) if len(busy) else 0
    last = int(view.end[busy].max()) if len(busy) else view.trace.span_ns
    last = max(last, first)
    return Steps(np.array([first]), np.array([last]), last, marked=False)


def _steps(view: View, begin: Column, end: Column) -> Steps:
    between = np.maximum(begin[1:] - end[:-1], 0)
    lead = int(np.median(between)) if len(between) else 0
    first = max(int(begin[0]) - lead, int(view.trace.begin[view.trace.lane == view.main].min()))
    called = take(view.trace.begin, view.calls)
    mine = (called >= first) & (called < end[-1])
    last = max(int(end[-1]), int(view.end[view.gpu[mine]].max(initial=0)))
    return Steps(np.append(first, end[:-1]), np.append(end[:-1], last), int(end[-1]), marked=True)
