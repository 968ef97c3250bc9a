"""The roofline: the least time that an op can take on a machine, what bounds it, and the share of the limit attained.

An op that moves B bytes and does F operations takes at least max(B / bandwidth, F / rate). Its arithmetic intensity is
F / B. Below the ridge, rate / bandwidth, memory bounds it. Both ceilings are measured: copy bandwidth and matmul rate.
Units without a measured ceiling (fp32 outside of matmuls) bound nothing here. A matmul whose rate was not measured has
no limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.declaration.documents import CostJson
from kernellab.machine.description import Ceilings


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


def roofline(cost: CostJson, dtype: str, time_us: float | None, ceilings: Ceilings | None) -> Roofline:
    moved = cost["bytes_read"] + cost["bytes_written"]
    matmul, dtype = product_flops(cost, dtype)
    roofs, ridge = _roofs_us(moved, matmul, dtype, ceilings) if ceilings else ({}, None)
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
    )


def product_flops(cost: CostJson, dtype: str) -> tuple[float, str]:
    """The flops of matmuls, and the name of the rate that bounds them: float32 may be multiplied as tf32."""
    tf32 = cost["flops"].get("tf32", 0)
    return (tf32, "tf32") if tf32 else (cost["flops"].get("matmul", 0), dtype)


def _roofs_us(moved: int, matmul: float, dtype: str, ceilings: Ceilings) -> tuple[dict[str, float], float | None]:
    """The least time by each ceiling, and the ridge."""
    memory_us = moved / ceilings["copy_gbps"] / 1e3
    rate = ceilings["matmul_tflops"].get(dtype)
    if matmul and not rate:
        return {}, None  # the rate of this matmul was not measured, and its memory limit alone would be too low
    ridge = rate * 1e3 / ceilings["copy_gbps"] if rate else None
    return {"memory": memory_us, **({"matmul": matmul / rate / 1e6} if matmul and rate else {})}, ridge
