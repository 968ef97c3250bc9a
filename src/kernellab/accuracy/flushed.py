"""Denormal numbers that are taken as 0: fast arithmetic on a GPU does this, and some of CUDA's own functions in Triton.

It is an error of less than the smallest normal number, and no wrong result.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.repeats import LARGE
from kernellab.declaration.inputs import Inputs

_SMALLEST_NORMAL = torch.finfo(torch.float32).tiny
_DTYPES = (torch.float32, torch.bfloat16)  # float16's denormal numbers are normal ones in float32


class FlushedDenormals:
    """What the results of one trial are where denormal inputs and results are taken as 0."""

    def __init__(self, reference64: Callable[[Inputs], Outputs], inputs: Inputs, oracle: Outputs) -> None:
        self._reference64, self._inputs, self._oracle = reference64, inputs, oracle
        self._flushed: Outputs | None = None

    def nearest(self, number: int, got: torch.Tensor) -> torch.Tensor | None:
        """Of the oracle and of what it is with zeros, the nearest to each element; None where no number is denormal.

        Large results are not asked about.
        """
        oracle = self._oracle[number]
        if got.numel() > LARGE:
            return None
        given = [t for t in self._inputs.values() if t is not None and t.dtype in _DTYPES]
        if got.dtype not in _DTYPES or not any(bool(_is_denormal(t).any()) for t in (*given, oracle)):
            return None
        exact = torch.where(_is_denormal(oracle) & (got == 0), 0.0, oracle)
        flushed = self._evaluate()[number]
        return torch.where((got - flushed).abs() < (got - exact).abs(), flushed, exact)

    def _evaluate(self) -> Outputs:
        if self._flushed is None:
            try:
                self._flushed = self._reference64({name: _flush(t) for name, t in self._inputs.items()})
            except Exception:  # a reference that refuses zeros
                self._flushed = self._oracle
        return self._flushed


def _flush(t: torch.Tensor | None) -> torch.Tensor | None:
    return t.where(~_is_denormal(t), 0.0) if t is not None and t.dtype in _DTYPES else t


def _is_denormal(t: torch.Tensor) -> torch.Tensor:
    return (t != 0) & (t.abs() < _SMALLEST_NORMAL)
