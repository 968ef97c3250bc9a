"""Implementations with a hand-written backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

F = TypeVar("F", contravariant=True)
R = TypeVar("R", covariant=True)  # a tensor, or a tuple of them
Tensors = Sequence[torch.Tensor]
Saved = Sequence[torch.Tensor | None]


class Forward(Protocol[R]):
    """Computes a result, or several; also returns what backward needs."""

    def __call__(self, *tensors: torch.Tensor) -> tuple[R, Saved]: ...


class Backward(Protocol):
    """Computes a gradient for each tensor that forward was given, from those of its results and what it saved."""

    def __call__(self, *upstream_and_saved: torch.Tensor) -> Sequence[torch.Tensor | None]: ...


def differentiable(forward: Forward[R], backward: Backward, *tensors: torch.Tensor | None) -> R:
    """What forward computes, which autograd differentiates by backward. A gradient cannot be differentiated again:
    autograd says so."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        return _Function.apply(forward, backward, *tensors)
    result, _ = forward(*tensors)  # type: ignore[arg-type]  # None where an input is not given
    return result


class Map(Protocol[F]):
    """Applies `f` to every element of some tensors, all of one shape."""

    def __call__(self, op: str, f: F, /, *inputs: torch.Tensor, outputs: int = 1) -> list[torch.Tensor]: ...


def differentiable_map(map_: Map[F], op: str, f: F, gradients: F, *tensors: torch.Tensor) -> torch.Tensor:
    """f of every element. `gradients`, of the upstream gradient and the tensors, has an output for each tensor."""

    def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        return map_(op, f, *inputs)[0], inputs

    def backward(*upstream_and_inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        return map_(op, gradients, *upstream_and_inputs, outputs=len(tensors))

    return differentiable(forward, backward, *tensors)


class MapRows(Protocol[F]):
    """Applies `f` to every row of some tensors, all of one shape."""

    def __call__(self, op: str, f: F, /, *inputs: torch.Tensor) -> torch.Tensor: ...


def differentiable_rows(map_: MapRows[F], op: str, f: F, gradient: F, x: torch.Tensor) -> torch.Tensor:
    """f of every row. `gradient` is a function of the upstream gradient and of the result."""

    def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        y = map_(op, f, *inputs)
        return y, (y,)

    def backward(*upstream_and_result: torch.Tensor) -> Sequence[torch.Tensor]:
        return [map_(op, gradient, *upstream_and_result)]

    return differentiable(forward, backward, x)


class _Context(FunctionCtx):
    gradients: Backward
    saved_tensors: tuple[torch.Tensor, ...]


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, forward: Forward[R], backward: Backward, *tensors: torch.Tensor) -> R:
        result, saved = forward(*tensors)
        ctx.save_for_backward(*saved)  # type: ignore[arg-type]  # None may be among them
        ctx.gradients = backward
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, *upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, None, *ctx.gradients(*upstream, *ctx.saved_tensors))
