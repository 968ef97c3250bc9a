"""FlashAttention of one head as an autograd function, to learn from: tensors are batch × sequence × dim.

    y = SingleHeadAttention.apply(q, k, v, is_causal)

What it computes tile by tile is in `tiled.py`. Here is what autograd needs to know: backward gets q, k, v, the result
and lse, one number for each query, but no weights, of which there is one for each pair of a query and a key.
"""

from __future__ import annotations

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from kernellab.ops.attention import tiled
from kernellab.ops.attention.settings import Settings


class _Context(FunctionCtx):
    settings: Settings
    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class SingleHeadAttention(torch.autograd.Function):
    """softmax(q·kᵀ/√dim)·v. With `is_causal`, query i sees the keys up to i."""

    @staticmethod
    def forward(
        ctx: _Context, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False
    ) -> torch.Tensor:
        ctx.settings = Settings(causal="top_left" if is_causal else None)
        queries, keys, values = _as_heads(q, k, v)
        y, lse = (x.squeeze(1) for x in tiled.forward(queries, keys, values, None, ctx.settings))
        ctx.save_for_backward(q, k, v, y, lse)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, y, lse = _as_heads(*ctx.saved_tensors)
        wanted = [*ctx.needs_input_grad[:3], False]
        gradients = tiled.backward(upstream.unsqueeze(1), q, k, v, None, y, lse, ctx.settings, wanted)
        dq, dk, dv = (None if x is None else x.squeeze(1) for x in gradients[:3])
        return dq, dk, dv, None  # is_causal has no gradient


def _as_heads(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """With a dim for the one head, as `tiled` takes them."""
    return [x.unsqueeze(1) for x in tensors]
