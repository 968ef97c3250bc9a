"""Attention of sequences of different lengths, packed one after the other without padding.

It is a function and no op: how its tensors depend on each other is more than a declaration of dims can say. On a GPU
the Triton kernels serve, on the CPU the reference on padded sequences.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

import kernellab as kl
from kernellab.ops.attention.settings import Settings, new_like, new_lse


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: str | None = None,
    scale: float | None = None,
    window: int | None = None,
    dropout_p: float = 0.0,
    seed: int = 0,
    offset: int = 0,
) -> torch.Tensor:
    """Attention within each sequence; for the options see `kl.ops.attention`.

    q is rows × heads × columns, with the rows of all sequences. Those of sequence n are from cu_seqlens_q[n] up to, and
    without, cu_seqlens_q[n + 1]: int32, from 0 to the number of rows. k and v likewise. The longest sequences have
    max_seqlen_q and max_seqlen_k rows; greater numbers are allowed. None is checked: that would wait for the GPU.
    """
    settings = Settings(causal, scale, window, dropout_p, seed, offset)
    starts = (cu_seqlens_q, cu_seqlens_k)
    compute = by_triton if q.is_cuda else by_reference
    return compute(q, k, v, starts, (max_seqlen_q, max_seqlen_k), settings)


def by_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts: Sequence[torch.Tensor],
    longest: tuple[int, int],
    settings: Settings,
) -> torch.Tensor:
    """Sequences are padded, and a bias hides what does not exist or is not seen."""
    (queries, keys), (q_places, k_places) = longest, (list(map(int, each.tolist())) for each in starts)
    hidden = torch.full((len(q_places) - 1, queries, keys), -torch.inf, dtype=q.dtype, device=q.device)
    for n in range(len(q_places) - 1):
        lengths = q_places[n + 1] - q_places[n], k_places[n + 1] - k_places[n]
        rows, cols = (torch.arange(length, device=q.device) for length in lengths)
        hidden[n, : lengths[0], : lengths[1]].masked_fill_(settings.band(*lengths).seen(rows, cols), 0)
    padded = [_pad(x, at, most) for x, at, most in ((q, q_places, queries), (k, k_places, keys), (v, k_places, keys))]
    bias = hidden[:, None].expand(-1, q.shape[1], -1, -1)
    dropout = {"dropout_p": settings.dropout_p, "seed": settings.seed, "offset": settings.offset}
    y = kl.ops.attention(*padded, bias, scale=settings.scale, **dropout)
    return torch.cat([y[n, :, : end - at].transpose(0, 1) for n, (at, end) in enumerate(_spans(q_places))])


def _pad(x: torch.Tensor, places: Sequence[int], longest: int) -> torch.Tensor:
    """[sequences, heads, rows, columns], with zeros behind each sequence."""
    sequences = [x[at:end] for at, end in _spans(places)]
    return torch.stack([torch.cat([s, s.new_zeros(longest - len(s), *s.shape[1:])]) for s in sequences]).transpose(1, 2)


def _spans(places: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(places))


def by_triton(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts: Sequence[torch.Tensor],
    longest: tuple[int, int],
    settings: Settings,
) -> torch.Tensor:
    result = _Packed.apply(q, k, v, tuple(x.to(torch.int32) for x in starts), longest, settings)
    assert isinstance(result, torch.Tensor)
    return result


class _Context(FunctionCtx):
    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    longest: tuple[int, int]
    settings: Settings


class _Packed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        starts: tuple[torch.Tensor, torch.Tensor],
        longest: tuple[int, int],
        settings: Settings,
    ) -> torch.Tensor:
        from kernellab.ops.attention.triton import Problem, Starts, launch_forward

        y = new_like(q)
        packed = [_as_one_batch(x) for x in (q, k, v)]
        lse = new_lse(packed[0])
        problem = Problem.of(packed[0], packed[1], settings, Starts(*starts, *longest))
        if y.numel():
            launch_forward(problem, packed[0], packed[1], packed[2], None, _as_one_batch(y), lse)
        ctx.save_for_backward(q, k, v, y, lse, *starts)
        ctx.longest, ctx.settings = longest, settings
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from kernellab.ops.attention.triton import Problem, Starts, launch_backward

        *tensors, lse, q_starts, k_starts = ctx.saved_tensors
        q, k, v, y = (_as_one_batch(x) for x in tensors)
        problem = Problem.of(q, k, ctx.settings, Starts(q_starts, k_starts, *ctx.longest))
        wanted = (*ctx.needs_input_grad[:3], False)
        gradients = launch_backward(problem, _as_one_batch(upstream), q, k, v, None, y, lse, wanted, atomic=False)
        return (*(None if x is None else x[0].transpose(0, 1) for x in gradients[:3]), None, None, None)


def _as_one_batch(x: torch.Tensor) -> torch.Tensor:
    """Rows × heads × columns as 1 × heads × rows × columns."""
    return x.transpose(0, 1)[None]
