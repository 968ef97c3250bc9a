"""A trace looked at: its nests, the GPU's rows with whoever started them, and its steps. Every question starts here."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernellab.profiling import optimizers
from kernellab.profiling.nest import Mask, Nest, picked, sums
from kernellab.traces.trace import NONE, ON_GPU, Column, Kind, Rows, Trace

# The program's own steps before the profiler's: a profiler's step ends where `prof.step()` happens to stand.
_STEPS = (re.compile(r"^step[_ #-]?\d+\b"), re.compile(r"^ProfilerStep#\d+"))
# What a row costs the program that is watched, in tenths of an operator. PyTorch 2.13 on a CPU, November 2026: 0.2 µs
# for a Python call, 1.5 to 4 µs for an operator with its shapes; CUDA's calls are watched by callbacks of about 1 µs.
_WATCHED = {Kind.OPERATOR: 10, Kind.RANGE: 10, Kind.CALL: 5, Kind.PYTHON: 1, Kind.MODULE: 1}
_ON_THREADS = (Kind.OPERATOR, Kind.RANGE, Kind.MODULE, Kind.PYTHON, Kind.CALL)
_LOOKED_AT = 4096
_BACKWARD = "autograd::engine::evaluate_function"


def is_step(name: str) -> bool:
    return any(pattern.match(name) for pattern in _STEPS)


@dataclass(frozen=True)
class Steps:
    """Steps from end to end of their ranges, so that what lies between two (a loader) is of the second.

    The first begins as long before its range as others do. The last ends when its work on the GPU is over; what the
    CPU asks for meanwhile, after `asked_ns`, is of no step. `marked`: there were ranges to go by.
    """

    begin: Column
    end: Column
    asked_ns: int
    marked: bool

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
    def took_ns(self) -> int:
        return max(self.last_ns - self.first_ns, 0)

    @property
    def span_ns(self) -> int:
        """What they took, to divide by."""
        return max(self.took_ns, 1)


class View:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def named(self, pattern: str | re.Pattern[str]) -> Mask:
        """Which names a pattern fits, to be indexed by a column of names."""
        fits = re.compile(pattern).search
        # A file may name a row by megabytes; nothing that is looked for stands further back.
        return np.array([bool(fits(name[:_LOOKED_AT])) for name in self.trace.names], dtype=np.bool_)

    # Threads

    @functools.cached_property
    def operators(self) -> Nest:
        return Nest(self.trace, self.trace.rows(Kind.OPERATOR))

    @functools.cached_property
    def modules(self) -> Nest:
        return Nest(self.trace, self.trace.rows(Kind.MODULE))

    @functools.cached_property
    def ranges(self) -> Nest:
        nest = Nest(self.trace, self.trace.rows(Kind.RANGE))
        nest.adopt(self.main, self.launching)
        return nest

    @functools.cached_property
    def pythons(self) -> Nest:
        """Calls of Python functions and of modules, which are such calls."""
        nest = Nest(self.trace, self.trace.rows(Kind.PYTHON, Kind.MODULE))
        nest.adopt(self.main, self.launching)
        return nest

    @functools.cached_property
    def launching(self) -> Column:
        """The lanes of threads that ask something of a GPU."""
        return np.unique(self.trace.lane[self.calls[self.calls >= 0]])

    @functools.cached_property
    def end(self) -> Column:
        return self.trace.end

    @functools.cached_property
    def main(self) -> int:
        """The lane of the thread that runs the program: the one with most ranges, else Python, else operators."""
        for kinds in ((Kind.RANGE,), (Kind.PYTHON, Kind.MODULE), (Kind.OPERATOR,), (Kind.CALL,)):
            rows = self.trace.rows(*kinds)
            if len(rows):
                return int(np.bincount(self.trace.lane[rows]).argmax())
        return 0

    # The GPU

    @functools.cached_property
    def gpu(self) -> Rows:
        """What took a GPU's time, in the order it began."""
        rows = self.trace.rows(*ON_GPU)
        return rows[np.argsort(self.trace.begin[rows], kind="stable")]

    @functools.cached_property
    def gpu_ns(self) -> Column:
        return self.trace.duration[self.gpu]

    @functools.cached_property
    def calls(self) -> Rows:
        """The call that started each of `gpu`."""
        return self.trace.starter[self.gpu]

    @functools.cached_property
    def gpu_operators(self) -> Rows:
        """The innermost operator that started each of `gpu`, as a position in `operators`."""
        return self.at_calls(self.operators)

    @functools.cached_property
    def gpu_ranges(self) -> Rows:
        found = self.at_calls(self.ranges)
        bare = np.flatnonzero((found < 0) & (self.calls >= 0))
        lane = np.full(len(bare), self.main, dtype=np.int64)
        found[bare] = self.ranges.around(lane, self.trace.begin[self.calls[bare]])
        return found

    @functools.cached_property
    def gpu_modules(self) -> Rows:
        """The innermost module each of `gpu` ran for; backward's work is of the module whose forward it undoes."""
        found = self.at_calls(self.modules)
        bare = np.flatnonzero(found < 0)
        home = picked(self.forward, self.gpu_operators[bare])
        known = home >= 0
        rows = self.operators.rows[home[known]]
        found[bare[known]] = self.modules.around(self.trace.lane[rows], self.trace.begin[rows])
        return found

    def at_calls(self, nest: Nest) -> Rows:
        """What of a nest was around the call that started each of `gpu`."""
        found = np.full(len(self.gpu), NONE, dtype=np.int64)
        known = np.flatnonzero(self.calls >= 0)
        rows = self.calls[known]
        found[known] = nest.around(self.trace.lane[rows], self.trace.begin[rows])
        return found

    # Forward and backward

    @functools.cached_property
    def in_backward(self) -> Rows:
        """The node of autograd each of `operators` lies in, as a position; NONE in forward."""
        return self.operators.nearest(self.named("^" + _BACKWARD)[self.operators.name])

    @functools.cached_property
    def forward(self) -> Rows:
        """The forward operator each of `operators` in backward belongs to, by autograd's sequence numbers.

        A number is shown by all operators until one uses it up, so that the last to show it made the node.
        """
        found = np.full(len(self.operators), NONE, dtype=np.int64)
        sequence = self.trace.sequence[self.operators.rows]
        backward = self.in_backward >= 0
        makers = np.flatnonzero(~backward & (sequence > 0))
        if not len(makers) or not backward.any():
            return found
        order = np.lexsort((self.operators.begin[makers], sequence[makers]))
        makers, numbers = makers[order], sequence[makers[order]]
        wanted = np.flatnonzero(backward)
        number = sequence[self.in_backward[wanted]]
        at = np.searchsorted(numbers, number, side="right") - 1
        same = (at >= 0) & (number > 0) & (numbers[at.clip(min=0)] == number)
        found[wanted[same]] = makers[at[same]]
        return found

    # Steps

    @functools.cached_property
    def steps(self) -> Steps:
        ranges = self.ranges
        for pattern in _STEPS:
            found = np.flatnonzero(self.named(pattern)[ranges.name] & (ranges.lane == self.main))
            if len(found):
                return self._steps(ranges.begin[found], ranges.end[found])
        by_optimizer = self._by_optimizer()
        if by_optimizer is not None:
            return by_optimizer
        busy = np.append(self.gpu, self.calls[self.calls >= 0]) if len(self.gpu) else self.trace.rows(*_ON_THREADS)
        first = int(self.trace.begin[busy].min()) if len(busy) else 0
        last = int(self.end[busy].max()) if len(busy) else self.trace.span_ns
        last = max(last, first)
        return Steps(np.array([first]), np.array([last]), last, marked=False)

    def _by_optimizer(self) -> Steps | None:
        """From the end of an optimizer's step to that of its next one."""
        ranges, told = self.ranges, optimizers.recorded(self.trace)
        found = np.flatnonzero(self.named(optimizers.RANGES)[ranges.name] & (ranges.lane == self.main))
        ends = np.sort(ranges.end[optimizers.leading(ranges, found, self.operators, self.trace, told)])
        if told is None or not len(ends):
            return self._steps(ends[:-1], ends[1:]) if len(ends) > 2 else None
        began = int(self.trace.begin[self.trace.lane == self.main].min())
        if told.first == 0 and len(ends) > 1:  # what comes before the first step of a program is no step
            began = max(began, int(ends[0] - np.median(np.diff(ends))))
        return self._steps(np.append(began, ends[:-1]), ends)

    def _steps(self, begin: Column, end: Column) -> Steps:
        between = np.maximum(begin[1:] - end[:-1], 0)
        lead = int(np.median(between)) if len(between) else 0
        first = max(int(begin[0]) - lead, int(self.trace.begin[self.trace.lane == self.main].min()))
        called = picked(self.trace.begin, self.calls)
        mine = (called >= first) & (called < end[-1])
        last = max(int(end[-1]), int(self.end[self.gpu[mine]].max(initial=0)))
        return Steps(np.append(first, end[:-1]), np.append(end[:-1], last), int(end[-1]), marked=True)

    @functools.cached_property
    def gpu_in_steps(self) -> Mask:
        """Which of `gpu` the steps started."""
        called = picked(self.trace.begin, self.calls)
        asked = np.where(called >= 0, called, self.trace.begin[self.gpu])
        until = np.where(called >= 0, self.steps.asked_ns, self.steps.last_ns)
        return (asked >= self.steps.first_ns) & (asked < until)

    @functools.cached_property
    def _watched(self) -> tuple[Column, Column]:
        cost = np.zeros(len(Kind), dtype=np.int64)
        for kind, tenths in _WATCHED.items():
            cost[kind] = tenths
        order = np.argsort(self.trace.begin, kind="stable")
        return self.trace.begin[order], np.append(0, np.cumsum(cost[self.trace.kind[order]]))

    def watched(self, begin: Column, end: Column) -> npt.NDArray[np.float64]:
        """What the profiler wrote of threads in each stretch, in operators."""
        starts, written = self._watched
        return np.asarray((written[np.searchsorted(starts, end)] - written[np.searchsorted(starts, begin)]) / 10)

    def by_name(self, names: Column, values: Column) -> Column:
        return sums(names, values, len(self.trace.names))
