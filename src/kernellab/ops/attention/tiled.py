"""FlashAttention-2 in plain PyTorch, to read: the algorithm of the kernels, tile by tile, on any device.

A row of scores is never in memory as a whole. Forward keeps a running maximum and a running sum for each query (online
softmax). Backward computes the scores again, tile by tile, from the one number per query that forward saves: lse, the
logarithm of the sum of their exponentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from kernellab.ops.attention.settings import Settings, new_like, new_lse
from kernellab.ops.gradients import Given, Tensors

QUERIES, KEYS = 128, 128  # of a tile
Places: TypeAlias = "slice[int, int, None]"


@dataclass(frozen=True)
class Tiles:
    """Which tiles there are, and the scores and dropout of one."""

    settings: Settings
    q: torch.Tensor
    k: torch.Tensor
    bias: torch.Tensor | None

    @property
    def scale(self) -> float:
        return self.settings.scale_for(self.q.shape[-1])

    def query_tiles(self) -> Iterator[Places]:
        return _slices(0, self.q.shape[-2], QUERIES)

    def key_tiles(self, rows: Places) -> Iterator[Places]:
        """The tiles of keys of which some query of these rows sees one: what lies outside the band costs nothing."""
        queries, keys = self.q.shape[-2], self.k.shape[-2]
        first, last = self.settings.band(queries, keys)
        begin = 0 if first is None else max(0, rows.start + first)
        end = keys if last is None else min(keys, rows.stop + last)
        return _slices(begin, end, KEYS)

    def scores(self, rows: Places, cols: Places) -> torch.Tensor:
        scores = _wide(self.q[..., rows, :]) @ _wide(self.k[..., cols, :]).transpose(-1, -2) * self.scale
        if self.bias is not None:
            scores += self.bias[..., rows, cols]
        places = [torch.arange(s.start, s.stop, device=self.q.device) for s in (rows, cols)]
        seen = self.settings.band(self.q.shape[-2], self.k.shape[-2]).seen(*places)
        return scores.masked_fill(~seen, -torch.inf)


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, settings: Settings
) -> Tensors:
    """The result, and lse."""
    y, lse = new_like(q), new_lse(q)
    keys, values = (_repeated(x, q.shape[1]) for x in (k, v))
    tiles = Tiles(settings, q, keys, bias)
    dropout = _dropout(q, k, settings)
    for rows in tiles.query_tiles():
        peak = torch.full_like(lse[..., rows], -torch.inf)
        total = torch.zeros_like(peak)
        weighted = torch.zeros_like(q[..., rows, :], dtype=lse.dtype)
        for cols in tiles.key_tiles(rows):
            scores = tiles.scores(rows, cols)
            higher = torch.maximum(peak, scores.amax(dim=-1))
            base = _finite(higher)
            shrink = torch.exp(peak - base)  # of what is summed already
            weights = torch.exp(scores - base[..., None])
            total = total * shrink + weights.sum(dim=-1)
            if dropout is not None:
                weights = weights * dropout[..., rows, cols]
            weighted = weighted * shrink[..., None] + weights @ _wide(values[..., cols, :])
            peak = higher
        y[..., rows, :] = (weighted / torch.where(total == 0, 1.0, total)[..., None]).to(y.dtype)
        lse[..., rows] = _finite(peak) + torch.log(total)
    return [y, lse]


def backward(
    upstream: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    y: torch.Tensor,
    lse: torch.Tensor,
    settings: Settings,
    wanted: Sequence[bool],
) -> Given:
    """The gradients of q, k, v and the bias.

    With weights P = exp(scores − lse) and dP = upstream·vᵀ, the gradient of the scores is P·(dP − delta), where delta,
    of each query, is the sum of upstream·y over the columns: what all scores of a row have in common.
    """
    heads, groups = k.shape[1], q.shape[1] // max(1, k.shape[1])
    keys, values = (_repeated(x, q.shape[1]) for x in (k, v))
    tiles = Tiles(settings, q, keys, bias)
    dropout = _dropout(q, k, settings)
    delta = (_wide(upstream) * _wide(y)).sum(dim=-1)
    dq, dk, dv = (torch.zeros_like(x, dtype=lse.dtype) for x in (q, keys, values))
    dbias = torch.zeros_like(bias) if bias is not None else None
    for rows in tiles.query_tiles():
        upstream_rows = _wide(upstream[..., rows, :])
        for cols in tiles.key_tiles(rows):
            weights = torch.exp(tiles.scores(rows, cols) - _finite(lse[..., rows])[..., None])
            dweights = upstream_rows @ _wide(values[..., cols, :]).transpose(-1, -2)
            factors = 1.0 if dropout is None else dropout[..., rows, cols]
            dv[..., cols, :] += (weights * factors).transpose(-1, -2) @ upstream_rows
            dscores = weights * (dweights * factors - delta[..., rows, None])
            if dbias is not None:
                dbias[..., rows, cols] = dscores.to(dbias.dtype)
            dq[..., rows, :] += dscores @ _wide(keys[..., cols, :]) * tiles.scale
            dk[..., cols, :] += dscores.transpose(-1, -2) @ _wide(q[..., rows, :]) * tiles.scale
    # Heads of a group share a head of k and v, whose gradient is the sum of theirs.
    dk, dv = (x.unflatten(1, (heads, groups)).sum(dim=2) for x in (dk, dv))
    return [dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dbias]


def _slices(begin: int, end: int, step: int) -> Iterator[Places]:
    return (slice(at, min(at + step, end)) for at in range(begin, end, step))


def _wide(x: torch.Tensor) -> torch.Tensor:
    """In fp32, in which the kernels add up; fp64 stays."""
    return x if x.dtype == torch.float64 else x.float()


def _repeated(x: torch.Tensor, heads: int) -> torch.Tensor:
    """The head of k or v that belongs to each head of q."""
    return x.repeat_interleave(heads // max(1, x.shape[1]), dim=1)


def _finite(peak: torch.Tensor) -> torch.Tensor:
    """0 for a query that has seen no key: −inf − 0 is −inf, and no NaN."""
    return peak.masked_fill(peak == -torch.inf, 0)


def _dropout(q: torch.Tensor, k: torch.Tensor, settings: Settings) -> torch.Tensor | None:
    """The factors of all weights. Only here they are in memory together: the kernels draw those of a tile."""
    if settings.dropout_p == 0:
        return None
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return settings.weight_factors(q.shape[:2], q.shape[2], k.shape[2], q.device).to(dtype)
