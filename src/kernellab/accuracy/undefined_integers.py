"""Integers that follow from NaN or inf converted to an integer: their values are undefined, so that any will do.

The reference is evaluated twice, with different integers in place of such conversions. What differs between the two
depends on an undefined value. Comparisons, `argmax` and `argmin` are defined for NaN and convert nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from kernellab.accuracy.outputs import Outputs
from kernellab.base.operator_mode import AnyOverload, OperatorMode
from kernellab.declaration.inputs import Inputs, clone

_STAND_INS = (1, 2)  # other integers would do: each integer dtype can hold these


class UndefinedIntegers:
    """Which integers of one trial's results are undefined, computed when first needed."""

    def __init__(self, evaluate: Callable[[Inputs], Outputs], inputs: Inputs) -> None:
        """`evaluate`: the reference in the case's dtype."""
        self._evaluate, self._inputs = evaluate, inputs
        self._evaluations: list[Outputs] | None = None

    def mask(self, number: int) -> torch.Tensor | None:
        """The undefined elements of result `number`; None where that cannot be told."""
        if self._evaluations is None:
            try:
                self._evaluations = [self._compute(value) for value in _STAND_INS]
            except Exception:  # a dtype that torch cannot write into by a mask
                self._evaluations = []
        if not self._evaluations:
            return None
        one, other = (outputs[number] for outputs in self._evaluations)
        return one != other if one.shape == other.shape else None

    def _compute(self, value: int) -> Outputs:
        with _Conversions(value):
            return self._evaluate(clone(self._inputs))


class _Conversions(OperatorMode):
    """While active, NaN and inf become this integer when they are converted to one."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self._value = value

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        given = args[0] if args else None
        if func.overloadpacket.__name__ != "_to_copy" or not isinstance(given, torch.Tensor):
            return result
        if not isinstance(result, torch.Tensor) or not given.is_floating_point():
            return result
        if result.is_floating_point() or result.is_complex() or result.dtype == torch.bool:
            return result
        return result.masked_fill(~given.isfinite(), self._value)
