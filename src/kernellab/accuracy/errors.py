"""How far a result is from the oracle, and the rule that decides whether that is right.

The error of an element is counted in roundings at the element's scale: e = |y − oracle| / (ε·max(|oracle|, s)), s the
RMS of the oracle over the row or the tensor. A result passes when the largest e and its 99.9 % quantile are each at
most twice the peer's plus 4. So a kernel is held to the accuracy of PyTorch's own op, and zeros never pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernellab.record.schema import ErrorsJson

FACTOR, SLACK = 2.0, 4.0
TORCH_ALLOWANCE = 1e-5  # of the scale: PyTorch's own approximations (erf on a CPU, inductor's erf) may be this far off
QUANTILE = 0.999
# Elements processed at once: on a CPU the float64 temporaries stay in cache, on a GPU there are few launches.
_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 25}
_SMALLEST = 2.0**-1022  # the smallest normal float64, to divide by
_SAMPLE = 1 << 22  # elements that the quantile is taken over; the maximum is taken over all elements


@dataclass(frozen=True)
class Errors:
    """Distances of a result from the oracle. The rule uses `max` and `q999`, which are counted in roundings."""

    max: float
    q999: float
    rel_l2: float
    max_abs: float
    at: tuple[int, ...]  # the indices of the largest error

    def to_json(self) -> ErrorsJson:
        return {
            "max": _finite(self.max),
            "q999": _finite(self.q999),
            "rel_l2": _finite(self.rel_l2),
            "max_abs": _finite(self.max_abs),
            "at": list(self.at),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


NO_ERROR = Errors(0.0, 0.0, 0.0, 0.0, ())


def limit(peer_error: float) -> float:
    """The largest error that passes, given the peer's."""
    return FACTOR * peer_error + SLACK


def passes(errors: Errors, peer: Errors) -> bool:
    """The rule, for errors measured against the same oracle."""
    return errors.max <= limit(peer.max) and errors.q999 <= limit(peer.q999)


def torch_passes(errors: Errors, peer: Errors, dtype: torch.dtype) -> bool:
    """The rule for what PyTorch itself computes: its own op, and code that torch.compile generates.

    Its known approximations are allowed.
    """
    return passes(errors, peer) or errors.max * torch.finfo(dtype).eps <= TORCH_ALLOWANCE


def chunk_elements(device: torch.device) -> int:
    """How many elements to process at once on a device."""
    return _CHUNK.get(device.type, _CHUNK["cuda"])


def measure(
    y: torch.Tensor,
    oracle: torch.Tensor,
    *,
    rowwise: bool,
    least_scale: float = 0.0,
    least_scales: torch.Tensor | None = None,
    allowance: torch.Tensor | None = None,
) -> Errors:
    """The errors of the elements that are finite in both; `nonfinite_mismatch` compares the others.

    `least_scale`: for an oracle that is 0 where terms of this size cancel; `least_scales`: the same for each element.
    `allowance`: a distance for each element that is not counted as an error.
    """
    if y.numel() == 0:
        return NO_ERROR
    width = y.shape[-1] if rowwise and y.dim() else 1
    ys, oracles = y.reshape(-1, width), oracle.reshape(-1, width)
    allowances = None if allowance is None else allowance.reshape(-1, width)
    least_of_each = None if least_scales is None else least_scales.reshape(-1, width)
    eps = torch.finfo(y.dtype).eps
    least = max(torch.finfo(y.dtype).tiny, least_scale)
    step = max(1, chunk_elements(y.device) // width)
    starts = range(0, ys.shape[0], step)
    largest = _largest(oracles, y.dtype, starts)
    overall = None if rowwise else _overall_rms(oracles, y.dtype, starts, largest)
    stride = _stride(y.numel(), y.shape[-1] if y.dim() else 1)
    worst, worst_abs, at = -1.0, 0.0, 0
    difference_squared = oracle_squared = 0.0
    sampled = []
    for start in starts:
        o = _in_range(oracles[start : start + step], y.dtype, math.inf)
        d = (ys[start : start + step].double() - o).abs()
        if allowances is not None:
            d = (d - allowances[start : start + step]).clamp_min(0.0)
        finite = d.isfinite()
        d = torch.where(finite, d, 0.0)
        o = torch.where(finite, o, 0.0)
        s = _rms(o).unsqueeze(-1) if overall is None else overall
        size = torch.maximum(o.abs(), s).clamp_min(least)
        if least_of_each is not None:
            size = torch.maximum(size, least_of_each[start : start + step])
        e = (d / (size * eps)).flatten()
        top = int(e.argmax())
        if float(e[top]) > worst:
            worst, at = float(e[top]), start * width + top
        worst_abs = max(worst_abs, float(d.max()))
        difference_squared += float(d.div(largest).square().sum())
        oracle_squared += float(o.div(largest).square().sum())
        sampled.append(e[-(start * width) % stride :: stride].float())
    sample = torch.cat(sampled)
    rank = max(1, math.ceil(QUANTILE * sample.numel()))
    q999 = float(sample.kthvalue(rank).values)
    rel_l2 = math.sqrt(difference_squared / (oracle_squared or 1.0))
    return Errors(worst, q999, rel_l2, worst_abs, _unravel(at, y.shape))


def _unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of a flat index. torch.unravel_index imports half of torch's compiler at its first call."""
    indices = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        indices.append(index)
    return tuple(reversed(indices))


def load_kernels(device: torch.device) -> None:
    """Compare something small: a GPU loads each kernel at its first use, which takes seconds in all."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        y = torch.ones(8, 8, device=device, dtype=dtype)
        for rowwise in (False, True):
            measure(y, y.double(), rowwise=rowwise)
        nonfinite_mismatch(y, y.double(), y)


def scales(oracle: torch.Tensor, dtype: torch.dtype, *, rowwise: bool) -> torch.Tensor:
    """The scale of each row's errors, or one scale for the whole tensor."""
    width = oracle.shape[-1] if rowwise and oracle.dim() else 1
    rows = oracle.reshape(-1, width)
    if not rows.numel():
        return torch.zeros(rows.shape[0], dtype=torch.float64, device=oracle.device)
    step = max(1, chunk_elements(oracle.device) // width)
    if rowwise:
        return torch.cat([_row_rms(piece, dtype) for piece in rows.split(step)])
    starts = range(0, rows.shape[0], step)
    return _overall_rms(rows, dtype, starts, _largest(rows, dtype, starts))


def _in_range(oracle: torch.Tensor, dtype: torch.dtype, otherwise: float) -> torch.Tensor:
    """The oracle in float64, `otherwise` where it is not finite in the dtype: such values must not set the scale."""
    oracle = oracle.double()
    return torch.where(oracle.to(dtype).isfinite(), oracle, otherwise)


def _row_rms(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return _rms(_in_range(rows, dtype, 0.0))


def _rms(rows: torch.Tensor) -> torch.Tensor:
    """Of each row, relative to the row's largest value: the square of a large float64 is inf."""
    top = rows.abs().amax(dim=-1, keepdim=True).clamp_min(_SMALLEST)
    return (rows / top).square().mean(dim=-1).sqrt() * top.squeeze(-1)


def _largest(oracles: torch.Tensor, dtype: torch.dtype, starts: range) -> float:
    """The largest magnitude that is finite in the dtype."""
    largest = _SMALLEST
    for start in starts:
        part = _in_range(oracles[start : start + starts.step], dtype, 0.0)
        largest = max(largest, float(part.abs().max()))
    return largest


def _overall_rms(oracles: torch.Tensor, dtype: torch.dtype, starts: range, largest: float) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float64, device=oracles.device)
    for start in starts:
        part = _in_range(oracles[start : start + starts.step], dtype, 0.0)
        total += part.div(largest).square().sum()
    return (total / oracles.numel()).sqrt() * largest


def _stride(numel: int, width: int) -> int:
    """How far apart sampled elements are: coprime with the row's width, or columns would never be sampled."""
    stride = max(1, numel // _SAMPLE)
    while math.gcd(stride, width) > 1:
        stride += 1
    return stride


def row_rms(t: torch.Tensor, *, rowwise: bool) -> torch.Tensor:
    """The root mean square of each row, or of the whole tensor, in a shape that broadcasts against it."""
    wide = t.double()
    if not t.numel():
        return torch.zeros((), dtype=torch.float64, device=t.device)
    if rowwise and t.dim():
        return _rms(wide).unsqueeze(-1)
    return _rms(wide.reshape(1, -1)).reshape(())


def digits_that_differ(got: float, want: float) -> tuple[str, str]:
    """Two numbers with six digits, or with as many as it takes to show that they differ."""
    for digits in range(6, 18):
        texts = f"{got:.{digits}g}", f"{want:.{digits}g}"
        if texts[0] != texts[1]:
            break
    else:
        return f"{got:.6g}", f"{want:.6g}"
    return texts


def nonfinite_mismatch(y: torch.Tensor, oracle: torch.Tensor, peer: torch.Tensor | None) -> str | None:
    """A difference in where NaN and inf occur, or None.

    They must occur where the oracle rounded to the dtype has them, or where the peer's result has them.
    """
    rounded = oracle.to(y.dtype)
    mismatch = _first_mismatch(y, rounded)
    if mismatch is None or (peer is not None and _first_mismatch(y, peer) is None):
        return None
    at, count = mismatch
    got, want = y.flatten()[at].item(), rounded.flatten()[at].item()
    place = ", ".join(map(str, _unravel(at, y.shape)))
    return f"{count} of {y.numel()} values differ in being NaN or inf: at [{place}] {got:g}, should be {want:g}"


def _first_mismatch(y: torch.Tensor, want: torch.Tensor) -> tuple[int, int] | None:
    """(first flat index, count) where one value is not finite and the other is not the same non-finite value."""
    flat_y, flat_want = y.flatten(), want.flatten()
    step = chunk_elements(y.device)
    for start in range(0, flat_y.numel(), step):
        a, b = flat_y[start : start + step], flat_want[start : start + step]
        bad = ~(a.isfinite() & b.isfinite()) & ~((a == b) | (a.isnan() & b.isnan()))
        count = int(bad.sum())
        if count:
            return start + int(bad.int().argmax()), count
    return None
