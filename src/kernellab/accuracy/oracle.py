"""The oracle: an op's reference evaluated in float64. Large ones are computed in slices of the leading dim."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

import torch

from kernellab.accuracy.errors import chunk_elements
from kernellab.accuracy.outputs import Outputs, as_tensors
from kernellab.base.functions import AnyFunction
from kernellab.declaration.case import ELLIPSIS
from kernellab.declaration.inputs import Inputs, upcast
from kernellab.declaration.op import Op
from kernellab.declaration.passes import BOTH, Pass, pass_of
from kernellab.trials.choosing.small_cases import shrink_to
from kernellab.trials.trial import Trial

_SLICE_TRIAL_ELEMENTS = 4096


class Oracle:
    """Evaluates the reference of one op in float64."""

    def __init__(self, op: Op, *, seed: int, device: torch.device) -> None:
        self._op, self._seed, self._device = op, seed, device

    def compute(self, trial: Trial, inputs: Inputs) -> Outputs:
        """In slices where the inputs are large and the op repeats over its leading dims."""
        first = next(iter(inputs.values()))
        chunk = chunk_elements(self._device)
        if first is None or first.numel() <= chunk or not self._slices_agree(trial):
            return self.reference64(trial, inputs)
        return self._compute_slices(trial, inputs, max(1, chunk // max(1, first[0].numel())))

    def reference64(self, trial: Trial, inputs: Inputs) -> Outputs:
        return compute(self._op, self._op.reference, upcast(inputs), trial)

    def _compute_slices(self, trial: Trial, inputs: Inputs, rows_per_slice: int) -> Outputs:
        rows = next(t for t in inputs.values() if t is not None).shape[0]
        slices = []
        for start in range(0, rows, rows_per_slice):
            stop = start + rows_per_slice
            part: Inputs = {name: t[start:stop] for name, t in inputs.items() if t is not None}
            slices.append(self.reference64(trial, part))
        return tuple(torch.cat(pieces) for pieces in zip(*slices, strict=True))

    def _slices_agree(self, trial: Trial) -> bool:
        """Whether slices of a small case give the result of the whole. `...` promises it; an op may not keep it."""
        small = shrink_to(self._op, trial.case, _SLICE_TRIAL_ELEMENTS)
        if not all(arg.dims[:1] == (ELLIPSIS,) for arg in self._op.args.values()) or not small.dims[ELLIPSIS]:
            return False
        inputs = pass_of(trial.pass_name).inputs(self._op, small, self._seed, self._device)
        if any(t is None for t in inputs.values()):
            return False
        try:
            whole, sliced = self.reference64(trial, inputs), self._compute_slices(trial, inputs, 2)
        except Exception:  # a reference that cannot be sliced
            return False
        close = functools.partial(torch.allclose, rtol=1e-9, atol=1e-12, equal_nan=True)
        return [t.shape for t in whole] == [t.shape for t in sliced] and all(map(close, whole, sliced))


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
