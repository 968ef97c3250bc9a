"""The view that every analysis starts from: a traced program with its steps, and which rows its tables count."""

from __future__ import annotations

import functools

import numpy as np

from kernellab.traces.trace import Mask
from kernellab.traceview.program import TracedProgram
from kernellab.traceview.row_tree import RowTree, take
from kernellab.traceview.steps import Steps, find_steps


class View(TracedProgram):
    @functools.cached_property
    def steps(self) -> Steps:
        return find_steps(self)

    @functools.cached_property
    def gpu_in_steps(self) -> Mask:
        """Which GPU rows were launched in steps."""
        called = take(self.trace.begin, self.gpu_calls)
        launched = np.where(called >= 0, called, self.trace.begin[self.gpu_rows])
        until = np.where(called >= 0, self.steps.cpu_end_ns, self.steps.end_ns)
        return (launched >= self.steps.begin_ns) & (launched < until)

    # Tables count only rows in steps, if there are steps with rows: loading a model is not training it.

    @functools.cached_property
    def counts_steps_only(self) -> bool:
        inside = self.gpu_in_steps if len(self.gpu_rows) else self._begun_in_steps(self.operators)
        return self.steps.marked and bool(inside.any())

    @functools.cached_property
    def gpu_counted(self) -> Mask:
        """Which GPU rows tables count."""
        return self.gpu_in_steps if self.counts_steps_only else np.ones(len(self.gpu_rows), dtype=np.bool_)

    def counted(self, tree: RowTree) -> Mask:
        """Which rows of a tree tables count."""
        return self._begun_in_steps(tree) if self.counts_steps_only else np.ones(len(tree), dtype=np.bool_)

    def _begun_in_steps(self, tree: RowTree) -> Mask:
        return np.asarray((tree.begin >= self.steps.begin_ns) & (tree.begin < self.steps.cpu_end_ns))
