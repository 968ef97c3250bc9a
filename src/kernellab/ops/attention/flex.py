"""Attention by torch's FlexAttention, which torch.compile makes a kernel of on a GPU: the implementation `compile`."""

from __future__ import annotations

import functools

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from kernellab.ops.attention.settings import Band, Settings

_NARROWEST_HEAD = 16
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def is_covered(q: torch.Tensor, k: torch.Tensor, settings: Settings) -> bool:
    """Whether FlexAttention is used: it has no backward on the CPU, no float64 and no dropout."""
    return (
        q.is_cuda
        and q.dtype in _DTYPES
        and q.shape[-1] >= _NARROWEST_HEAD
        and settings.dropout_p == 0
        and q.numel() > 0
        and k.numel() > 0
    )


def flex(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, settings: Settings
) -> torch.Tensor:
    """Attention of what is covered."""
    band = settings.band(q.shape[2], k.shape[2])
    mask = None if band == (None, None) else _block_mask(band, q.shape[2], k.shape[2], q.device)

    def add_bias(
        score: torch.Tensor, batch: torch.Tensor, head: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        assert bias is not None
        return score + bias[batch, head, i, j]

    result = flex_attention(
        q,
        k,
        v,
        score_mod=None if bias is None else add_bias,
        block_mask=mask,
        scale=settings.scale_for(q.shape[-1]),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    assert isinstance(result, torch.Tensor)
    return result


@torch.compiler.disable
@functools.lru_cache(maxsize=64)
def _block_mask(band: Band, queries: int, keys: int, device: torch.device) -> BlockMask:
    """Which blocks of pairs count. It depends on the sizes alone, and is made once for them."""
    first = band.first if band.first is not None else -queries
    last = band.last if band.last is not None else keys

    def seen(batch: torch.Tensor, head: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return (j - i >= first) & (j - i <= last)

    return create_block_mask(seen, None, None, queries, keys, device=device)
