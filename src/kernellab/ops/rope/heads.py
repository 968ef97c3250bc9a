"""Queries and keys as kernels take them, and the gradient of a rotation: the rotation back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from kernellab.ops.gradients import Contract, Given, Passes, Tensors
from kernellab.ops.layout import with_unit_columns


@dataclass(frozen=True)
class Rotation:
    """The angles of a rotation: tables of [positions, pairs], contiguous. `sign` is −1 for the rotation back."""

    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool
    sign: int = 1


class Rotate(Protocol):
    """Turns every head. Inputs and outputs are [batch, heads, positions, columns], with neighbouring columns."""

    def __call__(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], rotation: Rotation) -> None: ...


def rotation_passes(kernel: Rotate, *, interleaved: bool) -> Passes:
    """Queries and keys turned, in one launch. Backward turns their gradients back."""

    def turn(sign: int, first: torch.Tensor, second: torch.Tensor, *tables: torch.Tensor) -> Tensors:
        cos, sin = (table.resolve_neg().contiguous() for table in tables)
        tensors = (first, second)
        results = _new_pair(*tensors)
        inputs, outputs = ([with_unit_columns(x) for x in each] for each in (tensors, results))
        if any(x.numel() for x in tensors):
            kernel(inputs, outputs, Rotation(cos, sin, interleaved, sign))
        for result, output in zip(results, outputs, strict=True):
            if output is not result:
                result.copy_(output)
        return results

    def backward(*upstream_and_tables: torch.Tensor, wanted: Sequence[bool]) -> Given:
        return turn(-1, *upstream_and_tables)

    return Passes(functools.partial(turn, 1), backward)


def _new_pair(*tensors: torch.Tensor, **options: object) -> Tensors:
    """Like the first two tensors, with the strides that PyTorch gives the results."""
    return [torch.empty_like(x) for x in tensors[:2]]


CONTRACT = Contract(
    inputs=("q", "k", "cos", "sin"),
    outputs=("turned_q", "turned_k"),
    saved=("cos", "sin"),
    differentiated=(("q",), ("k",)),
    new_outputs=_new_pair,
    new_gradients=_new_pair,
    results=2,
    sizing_place=0,
)
