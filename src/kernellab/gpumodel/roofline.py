"""The roofline: how long an op must take at least on a machine, what holds it there, how near a time comes to it.

An op that moves B bytes and does F operations takes at least max(B / bandwidth, F / rate). Its arithmetic intensity
F / B says which of the two it is: below rate / bandwidth, the ridge, memory holds it. Ceilings are measured: copy
bandwidth and matmul rate. Units without a measured ceiling (fp32 outside of matmuls) bound nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Roofline:
    """One pass of a way. `fraction` is the share of the roof it attains; None where there is no time or no roof."""

    bytes: int
    flops: dict[str, int]  # by unit
    intensity: float | None  # matmul operations per byte; None for an op that has none
    ridge: float | None  # the intensity from which on arithmetic bounds
    bound: str | None  # memory or matmul
    roof_us: float | None
    fraction: float | None
    gbps: float | None
    tflops: float | None


def roofline(
    cost: Mapping[str, Any], dtype: str, time_us: float | None, ceilings: Mapping[str, Any] | None
) -> Roofline:
    """`cost` and `ceilings` as the record has them."""
    moved = cost["bytes_read"] + cost["bytes_written"]
    matmul = cost["flops"].get("matmul", 0)
    roofs, ridge = _roofs(moved, matmul, dtype, ceilings) if ceilings else ({}, None)
    bound = max(roofs, key=lambda k: roofs[k]) if roofs else None
    roof_us = roofs[bound] if bound else None
    timed = time_us is not None and time_us > 0
    return Roofline(
        bytes=moved,
        flops=dict(cost["flops"]),
        intensity=matmul / moved if matmul and moved else None,
        ridge=ridge,
        bound=bound,
        roof_us=roof_us,
        fraction=roof_us / time_us if timed and time_us and roof_us is not None else None,
        gbps=moved / time_us / 1e3 if timed and time_us else None,
        tflops=matmul / time_us / 1e6 if timed and time_us and matmul else None,
    )


def _roofs(moved: int, matmul: int, dtype: str, ceilings: Mapping[str, Any]) -> tuple[dict[str, float], float | None]:
    """Microseconds each ceiling asks for, and the ridge."""
    memory = moved / ceilings["copy_gbps"] / 1e3
    rate = ceilings["matmul_tflops"].get(dtype)
    if matmul and not rate:
        return {}, None  # a matmul whose rate was not measured: its memory roof alone would flatter nobody
    ridge = rate * 1e3 / ceilings["copy_gbps"] if rate else None
    return {"memory": memory, **({"matmul": matmul / rate / 1e6} if matmul and rate else {})}, ridge
