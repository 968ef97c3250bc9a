"""Whether a GPU can have done an op's work in a measured time, by the vendor's own numbers."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.declaration.documents import CostJson
from kernellab.machine.description import Peaks

# A time this much below the lower bound is still possible: the timer's resolution, and 2 % of its reading.
_SLACK, _SLACK_US = 0.02, 1.0


def why_implausible(
    cost: CostJson | None, dtype: str, time_us: float, cache: str | None, peaks: Peaks | None
) -> str | None:
    """The reason why this GPU cannot have done the work in this time; None if it can, or if too little is known."""
    if not cost or not peaks:
        return None
    for work, bound_us in _lower_bounds(cost, dtype, cache, peaks):
        if time_us < bound_us * (1 - _SLACK) - _SLACK_US:
            return f"{time_us:.4g} µs is not possible: {work} take at least {bound_us:.4g} µs"
    return None


def _lower_bounds(cost: CostJson, dtype: str, cache: str | None, peaks: Peaks) -> Iterator[tuple[str, float]]:
    """Each part of the work in words, and the shortest time it can take."""
    # As much as the cache holds may not have been written to memory at the end. Unless the cache was emptied, the same
    # amount may have been in it at the start.
    cached_bytes = peaks["l2_bytes"] * (1 if cache == "cold" else 2)
    beyond = cost["bytes_read"] + cost["bytes_written"] - cached_bytes
    pin_gbps, tflops = peaks["pin_gbps"], peaks["tflops"]
    if beyond > 0 and pin_gbps:
        work = f"{beyond / 1e6:.4g} MB beyond the L2 cache at the {pin_gbps:.0f} GB/s of the memory's pins"
        yield work, beyond / pin_gbps / 1e3
    if tflops is None:
        return
    # Ordinary arithmetic on 16-bit data can be done in pairs, up to four times as fast, so only float32 has a bound.
    matmul = tflops["matmul"].get(dtype)  # of float32 the rate of tf32, which is faster
    rates = {"matmul": matmul, "tf32": matmul, "fp32": tflops["fp32"] if dtype == "float32" else None}
    for unit, rate in rates.items():
        flops = cost["flops"].get(unit, 0)
        if flops and rate:
            work = f"{flops / 1e9:.4g} Gflop ({unit}, {dtype}) at the vendor's peak of {rate:.4g} TFLOPS"
            yield work, flops / rate / 1e6
