"""The time holds only while the data is in the L2 cache.

    warm time < 80 % of the cold time, or timed only warm with data that fits into L2

In a model, the operators before the op decide whether its data is in cache.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.regime import is_cache_resident
from kernellab.gpumodel.subject import Subject

NEEDS = "warm against cold times"
GAIN = "none: a warning about the number"


def examine(subject: Subject) -> Finding | None:
    if subject.time_us is None or subject.device is None:
        return None
    warm_us, cold_us = (subject.time_us, None) if subject.cache == "warm" else (subject.warm_us, subject.time_us)
    if warm_us is None or (cold_us is not None and not is_cache_resident(warm_us, cold_us)):
        return None
    if cold_us is None and subject.fewest_bytes > subject.device.l2_bytes:
        return None
    cold = f"{cold_us:.4g} µs without" if cold_us else "not timed without"
    return Finding(
        title=f"the time depends on the cache: {warm_us:.4g} µs with its data in L2, {cold}",
        do="compare implementations with the cache in the same state (klab bench --cache cold,warm) and state which",
        confidence="measured",
        evidence=[
            Evidence("fewest bytes", subject.fewest_bytes, "bytes", "declaration"),
            Evidence("L2", subject.device.l2_bytes, "bytes", "GPU"),
            Evidence("warm", warm_us, "µs", "timing"),
            *([Evidence("cold", cold_us, "µs", "timing")] if cold_us else []),
        ],
    )
