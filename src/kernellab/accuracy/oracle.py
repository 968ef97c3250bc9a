"""The oracle: an op's reference evaluated in float64. Large ones are computed in slices of rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence

import torch

from kernellab.accuracy.errors import chunk_elements
from kernellab.accuracy.outputs import Outputs, as_tensors
from kernellab.accuracy.row_slices import RowSlices, find_row_slices
from kernellab.base.functions import AnyFunction
from kernellab.declaration.inputs import Inputs, upcast
from kernellab.declaration.op import Op
from kernellab.declaration.passes import BOTH, Pass, pass_of
from kernellab.trials.trial import Trial


class Oracle:
    """Evaluates the reference of one op in float64."""

    def __init__(self, op: Op, *, seed: int, device: torch.device) -> None:
        self._op, self._seed, self._device = op, seed, device
        self._found: dict[str, RowSlices | None] = {}  # by trial

    def compute(self, trial: Trial, inputs: Inputs) -> Outputs:
        """In slices of rows where there are many, and the op allows it."""
        slices = self.slices(trial)
        if slices is None:
            return self.reference64(trial, inputs)
        return slices.compute(functools.partial(self.reference64, trial), inputs, self._rows_per_slice(trial))

    def reference64(self, trial: Trial, inputs: Inputs) -> Outputs:
        return compute(self._op, self._op.reference, upcast(inputs), trial)

    def slices(self, trial: Trial) -> RowSlices | None:
        """How the oracle of a trial is computed; None: at once."""
        if self._rows_per_slice(trial) == 0:
            return None
        if trial.key not in self._found:
            evaluate = functools.partial(self.reference64, trial)
            self._found[trial.key] = find_row_slices(self._op, trial, evaluate, seed=self._seed, device=self._device)
        return self._found[trial.key]

    def share_of_a_slice(self, trial: Trial) -> float:
        """How much of the oracle is computed at a time."""
        if self.slices(trial) is None:
            return 1.0
        return self._rows_per_slice(trial) / self._first_sizes(trial)[0]

    def _rows_per_slice(self, trial: Trial) -> int:
        """0 where the first input is small enough for the whole oracle to be computed at once."""
        sizes, chunk = self._first_sizes(trial), chunk_elements(self._device)
        return max(1, chunk // math.prod(sizes[1:])) if sizes and math.prod(sizes) > chunk else 0

    def _first_sizes(self, trial: Trial) -> tuple[int, ...]:
        return self._op.sizes(next(iter(self._op.args.values())), trial.case)


def compute(op: Op, fn: AnyFunction, inputs: Inputs, trial: Trial, *, mutates: Collection[str] = ()) -> Outputs:
    """Everything that is judged of a trial, computed by a function with the op's signature.

    `mutates`: inputs that the function changes by declaration.
    """
    pass_ = pass_to_judge(trial.pass_name, trial.wrt)
    return as_tensors(pass_.compute(op, fn, inputs, trial.case, mutates=mutates))


def pass_to_judge(pass_name: str, wrt: Sequence[str] = ()) -> Pass:
    """The pass to compute when a pass is judged: gradients are judged together with the results of their forward."""
    return pass_of(BOTH.name if pass_name == "backward" else pass_name, wrt)


def gradient_inputs(op: Op, trial: Trial, inputs: Inputs) -> list[str]:
    """The inputs whose gradients a trial computes."""
    if trial.pass_name == "forward":
        return []
    given = [name for name in op.gradient_args if inputs[name] is not None]
    return [name for name in given if not trial.wrt or name in trial.wrt]
