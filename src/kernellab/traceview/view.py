"""A trace analysis at: its nests, the GPU's rows with whoever started them, and its steps. Every question starts here."""

from __future__ import annotations

import functools
import re

import numpy as np
import numpy.typing as npt

from kernellab.traces.trace import NONE, ON_GPU, Column, Kind, Rows, Trace
from kernellab.traceview.missing_work import MissingWork, unseen
from kernellab.traceview.row_tree import Mask, RowTree, take, sums
from kernellab.traceview.steps import Steps, found

# What a row costs the program that is watched, in tenths of an operator. PyTorch 2.13 on a CPU, November 2026: 0.2 µs
# for a Python call, 1.5 to 4 µs for an operator with its shapes; CUDA's calls are watched by callbacks of about 1 µs.
_WATCHED = {Kind.OPERATOR: 10, Kind.RANGE: 10, Kind.CALL: 5, Kind.PYTHON: 1, Kind.MODULE: 1}
_LOOKED_AT = 4096
_BACKWARD = "autograd::engine::evaluate_function"


class View:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def named(self, pattern: str | re.Pattern[str]) -> Mask:
        """Which names a pattern fits, to be indexed by a column of names."""
        fits = re.compile(pattern).search
        # A file may name a row by megabytes; nothing that is analysis for stands further back.
        return np.array([bool(fits(name[:_LOOKED_AT])) for name in self.trace.names], dtype=np.bool_)

    # Threads

    @functools.cached_property
    def operators(self) -> RowTree:
        return RowTree(self.trace, self.trace.rows(Kind.OPERATOR))

    @functools.cached_property
    def modules(self) -> RowTree:
        return RowTree(self.trace, self.trace.rows(Kind.MODULE))

    @functools.cached_property
    def ranges(self) -> RowTree:
        nest = RowTree(self.trace, self.trace.rows(Kind.RANGE))
        nest.adopt(self.main, self.launching)
        return nest

    @functools.cached_property
    def pythons(self) -> RowTree:
        """Calls of Python functions and of modules, which are such calls."""
        nest = RowTree(self.trace, self.trace.rows(Kind.PYTHON, Kind.MODULE))
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
        return self.trace.launched_by[self.gpu]

    @functools.cached_property
    def unseen(self) -> MissingWork:
        return unseen(self.trace, had_gpu=bool(self.devices))

    @functools.cached_property
    def devices(self) -> list[str]:
        """The GPUs there were, by name, whether or not they had anything to do."""
        properties = self.trace.metadata.get("deviceProperties")
        named = properties if isinstance(properties, list) else []
        return [str(one.get("name")) for one in named if isinstance(one, dict) and one.get("name")]

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
        home = take(self.forward, self.gpu_operators[bare])
        known = home >= 0
        rows = self.operators.rows[home[known]]
        found[bare[known]] = self.modules.around(self.trace.lane[rows], self.trace.begin[rows])
        return found

    def at_calls(self, nest: RowTree) -> Rows:
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
        return found(self)

    @functools.cached_property
    def gpu_in_steps(self) -> Mask:
        """Which of `gpu` the steps started."""
        called = take(self.trace.begin, self.calls)
        asked = np.where(called >= 0, called, self.trace.begin[self.gpu])
        until = np.where(called >= 0, self.steps.asked_ns, self.steps.last_ns)
        return (asked >= self.steps.first_ns) & (asked < until)

    # What tables are of: the steps, where there are any with something in them. Loading a model is not training it.

    @functools.cached_property
    def of_steps(self) -> bool:
        inside = self.gpu_in_steps if len(self.gpu) else self._begun_in_steps(self.operators)
        return self.steps.marked and bool(inside.any())

    @functools.cached_property
    def gpu_counted(self) -> Mask:
        """Which of `gpu` are told of."""
        return self.gpu_in_steps if self.of_steps else np.ones(len(self.gpu), dtype=np.bool_)

    def told(self, nest: RowTree) -> Mask:
        """Which of a nest are."""
        return self._begun_in_steps(nest) if self.of_steps else np.ones(len(nest), dtype=np.bool_)

    def _begun_in_steps(self, nest: RowTree) -> Mask:
        return np.asarray((nest.begin >= self.steps.first_ns) & (nest.begin < self.steps.asked_ns))

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

    def sum_by_name(self, names: Column, values: Column) -> Column:
        return sums(names, values, len(self.trace.names))
