"""How far a result is from the oracle, and the rule that says whether that is right.

The error of an element is counted in units of the dtype's rounding at the element's scale:
e = |y − oracle| / (ε·max(|oracle|, s)), s the RMS of the oracle over the row or the tensor.
A result passes when the largest e and its 99.9 % quantile are each at most twice PyTorch's own
plus 4. So a kernel is held to what PyTorch achieves, and zeros never pass.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

FACTOR, SLACK = 2.0, 4.0
TORCH_ALLOWANCE = 1e-5  # PyTorch's own approximations (its CPU erf) may be this far off, relative to the scale
QUANTILE = 0.999
_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 25}  # elements at once: float64 temporaries in cache; few launches
_SAMPLE = 1 << 22  # elements the quantile is taken over; the maximum sees every element


@dataclass(frozen=True)
class Errors:
    """Distances from the oracle. `max` and `q999` are the scaled ones the rule looks at."""

    max: float
    q999: float
    rel_l2: float
    max_abs: float
    at: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        values = {k: v if math.isfinite(v) else None for k, v in asdict(self).items() if k != "at"}
        return values | {"at": list(self.at)}


def passes(mine: Errors, peer: Errors) -> bool:
    """The rule, for errors measured against the same oracle."""
    return mine.max <= FACTOR * peer.max + SLACK and mine.q999 <= FACTOR * peer.q999 + SLACK


def torch_passes(torchs: Errors, manual: Errors, dtype: torch.dtype) -> bool:
    """PyTorch's own op is held to the manual way, since it cannot be its own judge; its known approximations pass."""
    return passes(torchs, manual) or torchs.max * torch.finfo(dtype).eps <= TORCH_ALLOWANCE


def chunk(device: torch.device) -> int:
    """How many elements to handle at once on a device."""
    return _CHUNK.get(device.type, _CHUNK["cuda"])


def measure(y: torch.Tensor, oracle: torch.Tensor, *, rowwise: bool) -> Errors:
    """Errors of the elements that are finite in both; `special` judges the others."""
    if y.numel() == 0:
        return Errors(0.0, 0.0, 0.0, 0.0, ())
    shape = y.shape
    width = shape[-1] if shape else 1
    ys, oracles = y.reshape(-1, width), oracle.reshape(-1, width)
    eps = torch.finfo(y.dtype).eps
    tiny = torch.finfo(y.dtype).tiny
    scale = None if rowwise else _rms(oracles)
    step = max(1, chunk(y.device) // width)
    stride = max(1, y.numel() // _SAMPLE) | 1  # odd, so that it does not walk along one column
    worst, worst_abs, at = -1.0, 0.0, 0
    difference_squared = oracle_squared = 0.0
    sampled = []
    for start in range(0, ys.shape[0], step):
        o = oracles[start : start + step].double()
        d = (ys[start : start + step].double() - o).abs()
        counted = d.isfinite()
        d = torch.where(counted, d, 0.0)
        o = torch.where(counted, o, 0.0)
        s = _rms(o, rows=True) if scale is None else scale
        e = d / (torch.maximum(o.abs(), s).clamp_min(tiny) * eps)
        top = int(e.argmax())
        if float(e.flatten()[top]) > worst:
            worst, at = float(e.flatten()[top]), start * width + top
        worst_abs = max(worst_abs, float(d.max()))
        difference_squared += float(d.square().sum())
        oracle_squared += float(o.square().sum())
        sampled.append(e.flatten()[::stride].float())
    pool = torch.cat(sampled)
    rank = max(1, math.ceil(QUANTILE * pool.numel()))
    q999 = float(pool.kthvalue(rank).values)
    rel_l2 = math.sqrt(difference_squared / oracle_squared) if oracle_squared > 0 else math.sqrt(difference_squared)
    where = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), shape)) if shape else ()
    return Errors(worst, q999, rel_l2, worst_abs, where)


def _rms(values: torch.Tensor, *, rows: bool = False) -> torch.Tensor:
    finite = torch.where(values.isfinite(), values, 0.0)
    if rows:
        return finite.square().mean(dim=-1, keepdim=True).sqrt()
    total = sum(
        (part.double().square().sum() for part in finite.flatten().split(chunk(values.device))),
        torch.zeros((), dtype=torch.float64, device=values.device),
    )
    return (total / values.numel()).sqrt()


def special(y: torch.Tensor, oracle: torch.Tensor, peer: torch.Tensor | None) -> str | None:
    """A difference in where NaN and inf stand, against the oracle rounded to the dtype or PyTorch's own result."""
    rounded = oracle.to(y.dtype)
    mismatch = _pattern_differs(y, rounded)
    if mismatch is None or (peer is not None and _pattern_differs(y, peer) is None):
        return None
    where, count = mismatch
    got, want = y.flatten()[where].item(), rounded.flatten()[where].item()
    place = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(where), y.shape)) if y.dim() else ""
    return f"{count} of {y.numel()} values differ in being NaN or inf: at [{place}] {got:g}, should be {want:g}"


def _pattern_differs(y: torch.Tensor, want: torch.Tensor) -> tuple[int, int] | None:
    """(first flat index, count) where one is not finite and the other is not the same non-finite value."""
    flat_y, flat_w = y.flatten(), want.flatten()
    step = chunk(y.device)
    for start in range(0, flat_y.numel(), step):
        a, b = flat_y[start : start + step], flat_w[start : start + step]
        bad = ~(a.isfinite() & b.isfinite()) & ~((a == b) | (a.isnan() & b.isnan()))
        count = int(bad.sum())
        if count:
            return start + int(bad.int().argmax()), count
    return None
