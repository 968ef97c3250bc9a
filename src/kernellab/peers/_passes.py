"""Two functions of a library, a forward and a backward pass, as one function that autograd differentiates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

Saved = Sequence[torch.Tensor | None]
Forward = Callable[..., tuple[torch.Tensor, Saved]]  # type: ignore[explicit-any]  # of the tensors; also what to save
Backward = Callable[..., Saved]  # type: ignore[explicit-any]  # of the upstream gradient and what was saved


def join_passes(forward: Forward, backward: Backward, *tensors: torch.Tensor | None) -> torch.Tensor:
    """What forward computes. Backward returns a gradient for each of the tensors."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        joined: torch.Tensor = _Joined.apply(forward, backward, *tensors)
        return joined
    return forward(*tensors)[0]


class _Context(FunctionCtx):
    backward_pass: Backward
    saved_tensors: tuple[torch.Tensor, ...]


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, forward: Forward, backward: Backward, *tensors: torch.Tensor) -> torch.Tensor:
        result, saved = forward(*tensors)
        ctx.save_for_backward(*saved)  # type: ignore[arg-type]  # None may be among them
        ctx.backward_pass = backward
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, None, *ctx.backward_pass(upstream, *ctx.saved_tensors))
