"""The parts of a traced program: trees of its threads' calls, and the GPU's work with the calls that launched it."""

from __future__ import annotations

import functools
import re

import numpy as np

from kernellab.traces.trace import MATCHED_CHARACTERS, NONE, ON_GPU, Column, Kind, Mask, Rows, Trace
from kernellab.traceview.missing_work import MissingWork, find_missing_work
from kernellab.traceview.row_tree import RowTree, sum_by_key, take

BACKWARD_NODE = "autograd::engine::evaluate_function"  # prefix of every autograd node's name


class TracedProgram:
    """Columns about the GPU (`gpu_…`) have one entry per entry of `gpu_rows`."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def names_matching(self, pattern: str | re.Pattern[str]) -> Mask:
        """Which names match a pattern within their first characters; index it by a column of names."""
        search = re.compile(pattern).search
        return np.array([bool(search(name[:MATCHED_CHARACTERS])) for name in self.trace.names], dtype=np.bool_)

    def sum_by_name(self, names: Column, values: Column) -> Column:
        return sum_by_key(names, values, len(self.trace.names))

    @functools.cached_property
    def end(self) -> Column:
        return self.trace.end

    # Threads

    @functools.cached_property
    def operators(self) -> RowTree:
        return RowTree(self.trace, self.trace.rows(Kind.OPERATOR))

    @functools.cached_property
    def modules(self) -> RowTree:
        return RowTree(self.trace, self.trace.rows(Kind.MODULE))

    @functools.cached_property
    def ranges(self) -> RowTree:
        tree = RowTree(self.trace, self.trace.rows(Kind.RANGE))
        tree.adopt(self.main_lane, self.launching_lanes)
        return tree

    @functools.cached_property
    def python_calls(self) -> RowTree:
        """Calls of Python functions and of modules, which are Python calls too."""
        tree = RowTree(self.trace, self.trace.rows(Kind.PYTHON, Kind.MODULE))
        tree.adopt(self.main_lane, self.launching_lanes)
        return tree

    @functools.cached_property
    def launching_lanes(self) -> Column:
        """The lanes of threads that launch work on a GPU."""
        return np.unique(self.trace.lane[self.gpu_calls[self.gpu_calls >= 0]])

    @functools.cached_property
    def main_lane(self) -> int:
        """The lane of the thread that runs the program: it has most ranges, else Python calls, else operators."""
        for kinds in ((Kind.RANGE,), (Kind.PYTHON, Kind.MODULE), (Kind.OPERATOR,), (Kind.CALL,)):
            rows = self.trace.rows(*kinds)
            if len(rows):
                return int(np.bincount(self.trace.lane[rows]).argmax())
        return 0

    # The GPU

    @functools.cached_property
    def gpu_rows(self) -> Rows:
        """Kernels, copies and fills, in the order they began."""
        rows = self.trace.rows(*ON_GPU)
        return rows[np.argsort(self.trace.begin[rows], kind="stable")]

    @functools.cached_property
    def gpu_ns(self) -> Column:
        return self.trace.duration[self.gpu_rows]

    @functools.cached_property
    def gpu_calls(self) -> Rows:
        """The call that launched each GPU row."""
        return self.trace.launched_by[self.gpu_rows]

    @functools.cached_property
    def missing_work(self) -> MissingWork:
        return find_missing_work(self.trace, had_gpu=bool(self.gpu_names))

    @functools.cached_property
    def gpu_names(self) -> list[str]:
        """The GPUs of the machine, whether or not they had work."""
        properties = self.trace.metadata.get("deviceProperties")
        devices = properties if isinstance(properties, list) else []
        return [str(device.get("name")) for device in devices if isinstance(device, dict) and device.get("name")]

    @functools.cached_property
    def gpu_operators(self) -> Rows:
        """The innermost operator that launched each GPU row, as a position in `operators`."""
        return self._around_calls(self.operators)

    @functools.cached_property
    def gpu_ranges(self) -> Rows:
        """The innermost range each GPU row was launched in; without one on its own thread, the main thread's."""
        return self._around_calls(self.ranges, or_main=True)

    @functools.cached_property
    def gpu_modules(self) -> Rows:
        """The innermost module each GPU row belongs to; backward belongs to the module of its forward operator."""
        modules = self._around_calls(self.modules)
        return np.where(modules >= 0, modules, self.around_forward(self.modules, self.gpu_operators))

    def _around_calls(self, tree: RowTree, *, or_main: bool = False) -> Rows:
        """The innermost row of a tree around the call that launched each GPU row."""
        positions = np.full(len(self.gpu_rows), NONE, dtype=np.int64)
        linked = np.flatnonzero(self.gpu_calls >= 0)
        calls = self.gpu_calls[linked]
        around = self.around_or_main if or_main else RowTree.around
        positions[linked] = around(tree, self.trace.lane[calls], self.trace.begin[calls])
        return positions

    def around_or_main(self, tree: RowTree, lane: Column, at: Column) -> Rows:
        """The innermost row of a tree that is open on a lane at a moment; if there is none, on the main thread."""
        positions = tree.around(lane, at)
        missing = np.flatnonzero(positions < 0)
        positions[missing] = tree.around(np.full(len(missing), self.main_lane, dtype=np.int64), at[missing])
        return positions

    # Forward and backward

    @functools.cached_property
    def backward_node(self) -> Rows:
        """The autograd node around each of `operators`, as a position; NONE in forward."""
        return self.operators.nearest(self.names_matching("^" + BACKWARD_NODE)[self.operators.name])

    @functools.cached_property
    def forward_operator(self) -> Rows:
        """For each of `operators` in backward, its forward operator, by autograd's sequence numbers.

        Several operators have the same number until one of them creates a node: the last with that number created it.
        """
        forward = np.full(len(self.operators), NONE, dtype=np.int64)
        sequence = self.trace.sequence[self.operators.rows]
        backward = self.backward_node >= 0
        makers = np.flatnonzero(~backward & (sequence > 0))
        if not len(makers) or not backward.any():
            return forward
        order = np.lexsort((self.operators.begin[makers], sequence[makers]))
        makers, numbers = makers[order], sequence[makers[order]]
        wanted = np.flatnonzero(backward)
        number = sequence[self.backward_node[wanted]]
        at = np.searchsorted(numbers, number, side="right") - 1
        same = (at >= 0) & (number > 0) & (numbers[at.clip(min=0)] == number)
        forward[wanted[same]] = makers[at[same]]
        return forward

    def around_forward(self, tree: RowTree, operators: Rows) -> Rows:
        """For each operator in backward, the innermost row of a tree around its forward operator; else NONE."""
        forward = take(self.forward_operator, operators)
        rows = take(self.operators.rows, forward)
        return np.where(forward >= 0, tree.around(self.trace.lane[rows], self.trace.begin[rows]), NONE)
