"""Slices of rows: an oracle that does not fit in memory at once is computed from a few rows of the inputs at a time.

Rows are counted along the leading dim of an op's first input. Inputs that begin with that dim are cut; the others, such
as the weight of a norm, are given whole. A result, or a gradient, is either made of rows or a sum over them, as the
gradient of a weight is. A mean over rows is neither, and an op that computes one is not sliced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernellab.accuracy.outputs import Outputs
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Op
from kernellab.declaration.passes import pass_of
from kernellab.trials.choosing.small_cases import Axis, shrink_to
from kernellab.trials.domain import is_defined
from kernellab.trials.trial import Trial
from kernellab.vocabulary.dims import names_in

_SMALL_ELEMENTS = 4096
_SMALL_ROWS, _SLICE_ROWS = 5, 2  # the last slice is shorter

Evaluate = Callable[[Inputs], Outputs]


@dataclass(frozen=True)
class RowSlices:
    """`cut`: the inputs made of rows. `by_row`: of everything that is computed, whether it is made of rows."""

    cut: frozenset[str]
    by_row: tuple[bool, ...]

    def compute(self, evaluate: Evaluate, inputs: Inputs, rows_per_slice: int) -> Outputs:
        """What `evaluate` computes from the inputs, from one slice of them after the other."""
        rows = next(t.shape[0] for name, t in inputs.items() if name in self.cut and t is not None)
        pieces: list[list[torch.Tensor]] = [[] for _ in self.by_row]
        for start in range(0, rows, rows_per_slice):
            computed = evaluate(self._slice(inputs, start, start + rows_per_slice))
            for collected, piece, by_row in zip(pieces, computed, self.by_row, strict=True):
                if by_row or not collected:
                    collected.append(piece)
                else:
                    collected[0] = collected[0] + piece
        return tuple(
            torch.cat(parts) if by_row else parts[0] for parts, by_row in zip(pieces, self.by_row, strict=True)
        )

    def _slice(self, inputs: Inputs, start: int, stop: int) -> Inputs:
        return {name: t[start:stop] if t is not None and name in self.cut else t for name, t in inputs.items()}


def find_row_slices(op: Op, trial: Trial, evaluate: Evaluate, *, seed: int, device: torch.device) -> RowSlices | None:
    """How to slice an op at trials like this one; None where slices of a small case do not give what the whole gives.

    `evaluate` computes everything that is judged of the trial.
    """
    rows = _rows_of(op, trial.case)
    if rows is None:
        return None
    small = shrink_to(op, trial.case, _SMALL_ELEMENTS)
    cases = [op.resize(small, rows.resized(small, count)) for count in (_SMALL_ROWS, _SLICE_ROWS)]
    if not all(is_defined(op, case) for case in cases):
        return None
    inputs, fewer_inputs = (pass_of(trial.pass_name).inputs(op, case, seed, device) for case in cases)
    try:
        whole, fewer = evaluate(inputs), evaluate(fewer_inputs)
        named = [name for name, arg in op.args.items() if arg.dims[:1] == (rows.dim,)]
        upstream = [name for name in inputs if name not in op.args and _is_cut(inputs[name], fewer_inputs[name])]
        slices = RowSlices(frozenset([*named, *upstream]), tuple(map(_is_cut, whole, fewer)))
        sliced = slices.compute(evaluate, inputs, _SLICE_ROWS)
    except Exception:  # a reference that cannot be sliced
        return None
    return slices if _agree(whole, sliced) else None


def _rows_of(op: Op, case: Case) -> Axis | None:
    """The dim to slice along; None where an input has it in another place than the first."""
    dims = next(iter(op.args.values())).dims
    if not dims or any(dims[0] in names_in(dim) for arg in op.args.values() for dim in arg.dims[1:]):
        return None
    lead = case.dims.get(dims[0])
    if isinstance(lead, tuple):
        return Axis(dims[0], 0) if lead else None
    return Axis(dims[0]) if lead is not None else None  # None: a size that is derived from others


def _is_cut(whole: torch.Tensor | None, fewer: torch.Tensor | None) -> bool:
    """Whether a tensor has fewer rows where the inputs have."""
    if whole is None or fewer is None or not whole.dim():
        return False
    return (whole.shape[0], fewer.shape[0]) == (_SMALL_ROWS, _SLICE_ROWS)


def _agree(whole: Sequence[torch.Tensor], sliced: Sequence[torch.Tensor]) -> bool:
    close = functools.partial(torch.allclose, rtol=1e-9, atol=1e-12, equal_nan=True)
    return [t.shape for t in whole] == [t.shape for t in sliced] and all(map(close, whole, sliced))
