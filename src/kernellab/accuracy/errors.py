"""How far a result is from the oracle, and the rule that says whether that is right.

The error of an element is counted in units of the dtype's rounding at the element's scale:
e = |y − oracle| / (ε·max(|oracle|, s)), s the RMS of the oracle over the row or the tensor.
A result passes when the largest e and its 99.9 % quantile are each at most twice PyTorch's own
plus 4. So a kernel is held to what PyTorch achieves, and zeros never pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

FACTOR, SLACK = 2.0, 4.0
TORCH_ALLOWANCE = 1e-5  # PyTorch's own approximations (its CPU erf) may be this far off, relative to the scale
QUANTILE = 0.999
_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 25}  # elements at once: float64 temporaries in cache; few launches
_LEAST = 2.0**-1022  # the smallest normal float64, to divide by
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


NO_ERROR = Errors(0.0, 0.0, 0.0, 0.0, ())


def passes(mine: Errors, peer: Errors) -> bool:
    """The rule, for errors measured against the same oracle."""
    return mine.max <= FACTOR * peer.max + SLACK and mine.q999 <= FACTOR * peer.q999 + SLACK


def torch_passes(torchs: Errors, manual: Errors, dtype: torch.dtype) -> bool:
    """PyTorch's own op is held to the manual way, since it cannot be its own judge; its known approximations pass."""
    return passes(torchs, manual) or torchs.max * torch.finfo(dtype).eps <= TORCH_ALLOWANCE


def chunk(device: torch.device) -> int:
    """How many elements to handle at once on a device."""
    return _CHUNK.get(device.type, _CHUNK["cuda"])


def measure(
    y: torch.Tensor, oracle: torch.Tensor, *, rowwise: bool, floor: float = 0.0, allowed: torch.Tensor | None = None
) -> Errors:
    """Errors of the elements that are finite in both; `special` judges the others.

    `floor` is the least scale, for an oracle that is 0 where terms of this size cancel. `allowed` is a distance for
    each element that is no error.
    """
    if y.numel() == 0:
        return NO_ERROR
    width = y.shape[-1] if rowwise and y.dim() else 1
    ys, oracles = y.reshape(-1, width), oracle.reshape(-1, width)
    free = None if allowed is None else allowed.reshape(-1, width)
    eps = torch.finfo(y.dtype).eps
    tiny = torch.finfo(y.dtype).tiny
    step = max(1, chunk(y.device) // width)
    starts = range(0, ys.shape[0], step)
    largest = _largest(oracles, y.dtype, starts)
    overall = None if rowwise else _overall_rms(oracles, y.dtype, starts)
    stride = _stride(y.numel(), y.shape[-1] if y.dim() else 1)
    worst, worst_abs, at = -1.0, 0.0, 0
    difference_squared = oracle_squared = 0.0
    sampled = []
    for start in starts:
        o = _in_range(oracles[start : start + step], y.dtype)
        d = (ys[start : start + step].double() - o).abs()
        if free is not None:
            d = (d - free[start : start + step]).clamp_min(0.0)
        counted = d.isfinite()
        d = torch.where(counted, d, 0.0)
        o = torch.where(counted, o, 0.0)
        s = _rms(o).unsqueeze(-1) if overall is None else overall
        e = (d / (torch.maximum(o.abs(), s).clamp_min(max(tiny, floor)) * eps)).flatten()
        top = int(e.argmax())
        if float(e[top]) > worst:
            worst, at = float(e[top]), start * width + top
        worst_abs = max(worst_abs, float(d.max()))
        difference_squared += float(d.div(largest).square().sum())
        oracle_squared += float(o.div(largest).square().sum())
        sampled.append(e[-(start * width) % stride :: stride].float())
    pool = torch.cat(sampled)
    rank = max(1, math.ceil(QUANTILE * pool.numel()))
    q999 = float(pool.kthvalue(rank).values)
    rel_l2 = math.sqrt(difference_squared / (oracle_squared or 1.0))
    where = _place(at, y.shape)
    return Errors(worst, q999, rel_l2, worst_abs, where)


def _place(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Indices of a flat one. torch.unravel_index imports half of torch's compiler the first time."""
    indices = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        indices.append(index)
    return tuple(reversed(indices))


def load_kernels(device: torch.device) -> None:
    """Compare something small: a GPU loads each kernel when it is first used, which takes seconds in all."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        y = torch.ones(8, 8, device=device, dtype=dtype)
        for rowwise in (False, True):
            measure(y, y.double(), rowwise=rowwise)
        special(y, y.double(), y)


def bounds(
    oracle: torch.Tensor, dtype: torch.dtype, places: torch.Tensor, allowed: float, *, rowwise: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Between what a result with at most this scaled error lies at some places (flat indices), in float64."""
    if not places.numel():
        return places.double(), places.double()
    at = torch.take(oracle, places).double()
    if not dtype.is_floating_point:
        return at, at
    width = oracle.shape[-1] if rowwise and oracle.dim() else 1
    rows = oracle.reshape(-1, width)
    if rowwise:
        pieces = (places // width).split(max(1, chunk(oracle.device) // width))
        scale = torch.cat([_row_rms(rows[piece], dtype) for piece in pieces])
    else:
        scale = _overall_rms(rows, dtype, range(0, rows.shape[0], chunk(oracle.device)))
    slack = allowed * torch.finfo(dtype).eps * torch.maximum(at.abs(), scale).clamp_min(torch.finfo(dtype).tiny)
    return at - slack, at + slack


def _in_range(oracle: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The oracle in float64 with what the dtype cannot hold as inf: it must not count towards the scale."""
    oracle = oracle.double()
    return torch.where(oracle.to(dtype).isfinite(), oracle, math.inf)


def _row_rms(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    rows = _in_range(rows, dtype)
    return _rms(torch.where(rows.isfinite(), rows, 0.0))


def _rms(rows: torch.Tensor) -> torch.Tensor:
    """Of each row, taken at the row's own scale: the square of a large float64 is inf, and everything is near inf."""
    top = rows.abs().amax(dim=-1, keepdim=True).clamp_min(_LEAST)
    return (rows / top).square().mean(dim=-1).sqrt() * top.squeeze(-1)


def _largest(oracles: torch.Tensor, dtype: torch.dtype, starts: range) -> float:
    """The largest magnitude that is finite in the dtype."""
    found = _LEAST
    for start in starts:
        part = _in_range(oracles[start : start + starts.step], dtype)
        found = max(found, float(torch.where(part.isfinite(), part, 0.0).abs().max()))
    return found


def _overall_rms(oracles: torch.Tensor, dtype: torch.dtype, starts: range) -> torch.Tensor:
    top = _largest(oracles, dtype, starts)
    total = torch.zeros((), dtype=torch.float64, device=oracles.device)
    for start in starts:
        part = _in_range(oracles[start : start + starts.step], dtype)
        total += torch.where(part.isfinite(), part, 0.0).div(top).square().sum()
    return (total / oracles.numel()).sqrt() * top


def _stride(numel: int, width: int) -> int:
    """How far apart the sampled elements are: no common factor with the row, or columns would be left out."""
    stride = max(1, numel // _SAMPLE)
    while math.gcd(stride, width) > 1:
        stride += 1
    return stride


def special(y: torch.Tensor, oracle: torch.Tensor, peer: torch.Tensor | None) -> str | None:
    """A difference in where NaN and inf stand, against the oracle rounded to the dtype or PyTorch's own result."""
    rounded = oracle.to(y.dtype)
    mismatch = _pattern_differs(y, rounded)
    if mismatch is None or (peer is not None and _pattern_differs(y, peer) is None):
        return None
    where, count = mismatch
    got, want = y.flatten()[where].item(), rounded.flatten()[where].item()
    place = ", ".join(map(str, _place(where, y.shape)))
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
