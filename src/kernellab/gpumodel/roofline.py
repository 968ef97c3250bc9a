"""The roofline: the least time that an op can take on a machine, what bounds it, and the share of the limit attained.

An op that moves B bytes and does F operations takes at least max(B / bandwidth, F / rate). Its arithmetic intensity is
F / B. Below the ridge, rate / bandwidth, memory bounds it. Both ceilings are measured: copy bandwidth and matmul rate.
The matmul rate is that at the clock that the GPU had while the op was timed, where it was measured by clock. Units
without a measured ceiling (fp32 outside of matmuls) bound nothing here. A matmul whose rate was not measured has no
limit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from kernellab.declaration.documents import CostJson
from kernellab.machine.description import Ceilings, MatmulRate


@dataclass(frozen=True)
class Roofline:
    """One pass of an implementation. `fraction` is the share of the limit attained; None without a time or a limit."""

    bytes: int
    flops: dict[str, float]  # by unit
    intensity: float | None  # matmul operations per byte; None for an op without matmuls
    ridge: float | None  # the intensity above which arithmetic bounds
    bound: str | None  # memory or matmul
    roof_us: float | None
    fraction: float | None
    gbps: float | None
    tflops: float | None
    matmul_tflops: float | None = None  # the measured rate that it is compared with
    clock_mhz: float | None = None  # the clock of that rate; None where it is not known


def roofline(
    cost: CostJson, dtype: str, time_us: float | None, ceilings: Ceilings | None, clock_mhz: float | None = None
) -> Roofline:
    """`clock_mhz`: that of the GPU while the op was timed."""
    moved = cost["bytes_read"] + cost["bytes_written"]
    matmul, dtype = product_flops(cost, dtype)
    rate, rate_mhz = matmul_rate(ceilings, dtype, clock_mhz) if ceilings else (None, None)
    roofs, ridge = _roofs_us(moved, matmul, rate, ceilings) if ceilings else ({}, None)
    bound = max(roofs, key=lambda name: roofs[name]) if roofs else None
    roof_us = roofs[bound] if bound else None
    time_us = time_us if time_us and time_us > 0 else None
    return Roofline(
        bytes=moved,
        flops=dict(cost["flops"]),
        intensity=matmul / moved if matmul and moved else None,
        ridge=ridge,
        bound=bound,
        roof_us=roof_us,
        fraction=roof_us / time_us if time_us and roof_us is not None else None,
        gbps=moved / time_us / 1e3 if time_us else None,
        tflops=matmul / time_us / 1e6 if time_us and matmul else None,
        matmul_tflops=rate if matmul else None,
        clock_mhz=rate_mhz if matmul else None,
    )


def product_flops(cost: CostJson, dtype: str) -> tuple[float, str]:
    """The flops of matmuls, and the name of the rate that bounds them: float32 may be multiplied as tf32."""
    tf32 = cost["flops"].get("tf32", 0)
    return (tf32, "tf32") if tf32 else (cost["flops"].get("matmul", 0), dtype)


def matmul_rate(ceilings: Ceilings, dtype: str, clock_mhz: float | None) -> tuple[float | None, float | None]:
    """The measured matmul rate at a clock, and that clock; without clocks the rate as measured, and None.

    Between two clocks at which the rate was measured it is interpolated, beyond them it is proportional to the clock.
    """
    measured = _rates_by_clock(ceilings, dtype)
    if not measured or not clock_mhz:
        return ceilings["matmul_tflops"].get(dtype), None
    for low, high in itertools.pairwise(measured):
        if low["clock_mhz"] < clock_mhz < high["clock_mhz"]:
            share = (clock_mhz - low["clock_mhz"]) / (high["clock_mhz"] - low["clock_mhz"])
            return low["tflops"] + share * (high["tflops"] - low["tflops"]), clock_mhz
    nearest = min(measured, key=lambda rate: abs(rate["clock_mhz"] - clock_mhz))
    return nearest["tflops"] * clock_mhz / nearest["clock_mhz"], clock_mhz


def matmul_limits(ceilings: Ceilings, dtype: str) -> dict[str, float]:
    """The matmul rates to draw, in TFLOP/s by name: one for each power state whose clock differs from the others'."""
    rates = {f"{rate['clock_mhz']:.0f} MHz": rate["tflops"] for rate in _rates_by_clock(ceilings, dtype)}
    if len(rates) > 1:
        return {f"{dtype} limit at {clock}, measured": tflops for clock, tflops in rates.items()}
    tflops = ceilings["matmul_tflops"].get(dtype)
    return {f"{dtype} limit, measured": tflops} if tflops else {}


def _rates_by_clock(ceilings: Ceilings, dtype: str) -> list[MatmulRate]:
    return sorted(ceilings.get("matmul_by_clock", {}).get(dtype, ()), key=lambda rate: rate["clock_mhz"])


def _roofs_us(
    moved: int, matmul: float, rate: float | None, ceilings: Ceilings
) -> tuple[dict[str, float], float | None]:
    """The least time by each ceiling, and the ridge."""
    memory_us = moved / ceilings["copy_gbps"] / 1e3
    if matmul and not rate:
        return {}, None  # the rate of this matmul was not measured, and its memory limit alone would be too low
    ridge = rate * 1e3 / ceilings["copy_gbps"] if rate else None
    return {"memory": memory_us, **({"matmul": matmul / rate / 1e6} if matmul and rate else {})}, ridge
