"""Where a program's steps begin and end: by ranges, else by its optimizer, else by the calls of its model."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from kernellab.traces.trace import Column, Kind
from kernellab.traceview import optimizer_steps
from kernellab.traceview.program import TracedProgram
from kernellab.traceview.row_tree import sum_by_key, take

# The program's own steps before the profiler's: a profiler's step ends wherever the program calls `prof.step()`.
_STEP_PATTERNS = (re.compile(r"^(step[_ #-]?)\d+\b"), re.compile(r"^(ProfilerStep#)\d+\b"))
_ON_THREADS = (Kind.OPERATOR, Kind.RANGE, Kind.MODULE, Kind.PYTHON, Kind.CALL)
_MAX_LABEL = 80  # characters
_MIN_CALLS = 3  # of a model after its first: fewer are not a loop
_INSTANCE_NUMBER = re.compile(r"_\d+$")  # the profiler appends it to distinguish modules of one class


def is_step(name: str) -> bool:
    return any(pattern.match(name) for pattern in _STEP_PATTERNS)


def mask_step_number(name: str) -> str:
    """`step_7` becomes `step_*`; other names are not changed."""
    for pattern in _STEP_PATTERNS:
        name = pattern.sub(r"\1*", name)
    return name


@dataclass(frozen=True)
class Steps:
    """Steps from the end of one range to the end of the next: time between two ranges (a loader) belongs to the second.

    The first step begins before its range by the median of the others. The last step ends when its GPU work
    does; work that the CPU launches after `cpu_end_ns` belongs to no step.
    """

    begin: Column
    end: Column
    cpu_end_ns: int
    marked: bool  # False: nothing marks steps, and the whole trace counts as one
    module: str = ""  # the module whose calls count as steps, if nothing else marks them

    @property
    def count(self) -> int:
        return len(self.begin)

    @property
    def begin_ns(self) -> int:
        return int(self.begin[0])

    @property
    def end_ns(self) -> int:
        return int(self.end[-1])

    @property
    def duration_ns(self) -> int:
        return max(self.end_ns - self.begin_ns, 0)

    @property
    def span_ns(self) -> int:
        """The duration, at least 1: a safe divisor."""
        return max(self.duration_ns, 1)


def find_steps(program: TracedProgram) -> Steps:
    return _by_ranges(program) or _by_optimizer(program) or _by_model(program) or _whole(program)


def _by_ranges(program: TracedProgram) -> Steps | None:
    ranges = program.ranges
    for pattern in _STEP_PATTERNS:
        at = np.flatnonzero(program.names_matching(pattern)[ranges.name] & (ranges.lane == program.main_lane))
        if len(at):
            return _steps(program, ranges.begin[at], ranges.end[at])
    return None


def _by_optimizer(program: TracedProgram) -> Steps | None:
    """Steps from the end of one optimizer step to the end of the next."""
    ranges, recorded = program.ranges, optimizer_steps.read_recorded_steps(program.trace)
    is_optimizer = program.names_matching(optimizer_steps.RANGES)[ranges.name]
    at = np.flatnonzero(is_optimizer & (ranges.lane == program.main_lane))
    ends = np.sort(ranges.end[optimizer_steps.select(ranges, at, program.operators, program.trace, recorded)])
    if recorded is None or not len(ends):
        return _steps(program, ends[:-1], ends[1:]) if len(ends) > 2 else None
    begin = _first_ns(program)
    if recorded.first == 0 and len(ends) > 1:  # the time before the first step of a program is not a step
        begin = max(begin, int(ends[0] - np.median(np.diff(ends))))
    return _steps(program, np.append(begin, ends[:-1]), ends)


def _by_model(program: TracedProgram) -> Steps | None:
    """Steps from the end of one call of the outermost module to the end of the next: serving a model has no optimizer.

    Everything before the second call is left out: loading the model, and a first call that differs from the others.
    """
    tree = program.modules
    roots = np.flatnonzero((tree.parent < 0) & (tree.lane == program.main_lane))
    if len(roots) <= _MIN_CALLS:
        return None
    name = int(sum_by_key(tree.name[roots], tree.duration[roots], len(program.trace.names)).argmax())
    calls = roots[tree.name[roots] == name]
    if len(calls) <= _MIN_CALLS:
        return None
    steps = _steps(program, tree.end[calls[:-1]], tree.end[calls[1:]])
    return replace(steps, module=_INSTANCE_NUMBER.sub("", program.trace.names[name][:_MAX_LABEL]))


def _whole(program: TracedProgram) -> Steps:
    calls = program.gpu_calls[program.gpu_calls >= 0]
    rows = np.append(program.gpu_rows, calls) if len(program.gpu_rows) else program.trace.rows(*_ON_THREADS)
    first = int(program.trace.begin[rows].min()) if len(rows) else 0
    last = int(program.end[rows].max()) if len(rows) else program.trace.span_ns
    last = max(last, first)
    return Steps(np.array([first]), np.array([last]), last, marked=False)


def _steps(program: TracedProgram, begin: Column, end: Column) -> Steps:
    between = np.maximum(begin[1:] - end[:-1], 0)
    lead = int(np.median(between)) if len(between) else 0
    first = max(int(begin[0]) - lead, _first_ns(program))
    called = take(program.trace.begin, program.gpu_calls)
    launched = (called >= first) & (called < end[-1])
    last = max(int(end[-1]), int(program.end[program.gpu_rows[launched]].max(initial=0)))
    return Steps(np.append(first, end[:-1]), np.append(end[:-1], last), int(end[-1]), marked=True)


def _first_ns(program: TracedProgram) -> int:
    """When the main thread's first row begins."""
    return int(program.trace.begin[program.trace.lane == program.main_lane].min())
