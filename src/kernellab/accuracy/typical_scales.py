"""The scale of each element where a result or a gradient is small because its terms cancel.

A gradient is linear in the upstream gradient. For one upstream gradient its terms may cancel in some row, and what is
left of them is rounding at the scale of the terms. Random upstream gradients of the same size show that scale. A result
has nothing like it: there the scale of the whole tensor stands for that of a row that rounding changes altogether.
Where a gradient is 0 for every upstream gradient, as that of a norm of one column is, nothing but what rounding leaves
shows how large the terms are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernellab.accuracy.errors import row_rms
from kernellab.accuracy.monte_carlo import RoundedReferences
from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.repeats import repeats
from kernellab.declaration.inputs import Inputs, normal
from kernellab.declaration.passes import is_upstream

_DRAWS = 8


class TypicalScales:
    """The scales of one trial's results and gradients, computed when they are first needed."""

    def __init__(
        self,
        reference64: Callable[[Inputs], Outputs],
        inputs: Inputs,
        oracle: Outputs,
        rounded: RoundedReferences,
        *,
        results: int,
        rowwise: bool,
        seed: int,
    ) -> None:
        """`results`: how many of the oracle's tensors are results; gradients follow them."""
        self._reference64, self._inputs, self._oracle, self._rounded = reference64, inputs, oracle, rounded
        self._results, self._rowwise, self._seed = results, rowwise, seed
        self._gradients: Outputs | None = None

    def scales(self, number: int, dtype: torch.dtype) -> torch.Tensor | None:
        """At least this scale for each element of a result or gradient; None where it is not known."""
        if number < self._results:
            oracle = self._oracle[number]
            cancelled = self._rounded.cancelled_rows(number, dtype)
            return torch.where(cancelled, row_rms(oracle, rowwise=False), 0.0)
        gradients = self._typical_gradients()
        if not gradients:
            return None
        scales = gradients[number - self._results]
        nothing = scales + self._oracle[number].abs() == 0
        return torch.where(nothing, self._rounded.size_of_terms(number, nothing, dtype), scales)

    def _typical_gradients(self) -> Outputs:
        """Empty where they would take too much memory, or where the reference fails."""
        if self._gradients is None:
            try:
                self._gradients = self._compute()
            except Exception:
                self._gradients = ()
        return self._gradients

    def _compute(self) -> Outputs:
        """The root mean square of each element over random upstream gradients, or that of its row if it is larger."""
        squares = [torch.zeros_like(t) for t in self._oracle[self._results :]]
        draws = 0
        for draw in repeats(_DRAWS, self._inputs, self._oracle):
            gradients = self._reference64(self._with_random_upstream(draw))[self._results :]
            squares = [total + t.square() for total, t in zip(squares, gradients, strict=True)]
            draws += 1
        if not draws:
            return ()
        sizes = [(total / draws).sqrt() for total in squares]
        return tuple(torch.maximum(size, row_rms(size, rowwise=self._rowwise)) for size in sizes)

    def _with_random_upstream(self, draw: int) -> Inputs:
        """Every row of an upstream gradient is random and keeps its root mean square."""
        changed: Inputs = dict(self._inputs)
        for name, t in self._inputs.items():
            if t is not None and is_upstream(name):
                random = normal(t.shape, torch.float64, t.device, self._seed, name, f"typical scale {draw}")
                changed[name] = random * row_rms(t, rowwise=self._rowwise)
        return changed
