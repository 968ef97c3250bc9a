"""Queries and keys as kernels take them, and the gradient of a rotation: the rotation back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from kernellab.ops.gradients import differentiable


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


def rotate(
    kernel: Rotate, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both turned, in one launch. Autograd turns their gradients back."""
    tables = cos.resolve_neg().contiguous(), sin.resolve_neg().contiguous()

    def turn(sign: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = tuple(torch.empty_like(x) for x in tensors)  # with the strides that PyTorch gives them
        inputs, outputs = ([with_neighbouring_columns(x) for x in each] for each in (tensors, results))
        if any(x.numel() for x in tensors):
            kernel(inputs, outputs, Rotation(*tables, interleaved, sign))
        for result, output in zip(results, outputs, strict=True):
            if output is not result:
                result.copy_(output)
        return results

    def forward(*tensors: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], Sequence[torch.Tensor]]:
        return turn(1, *tensors), ()

    def backward(*upstream: torch.Tensor) -> Sequence[torch.Tensor]:
        return turn(-1, *upstream)

    turned_q, turned_k = differentiable(forward, backward, q, k)
    return turned_q, turned_k


def with_neighbouring_columns(x: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if its columns are not neighbours in memory."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
