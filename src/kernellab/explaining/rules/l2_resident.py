"""L2-resident timing: times that hold only while the data is in cache.

Said where a way was timed warm, or where cold calls take much longer than warm ones: in a model, what runs before the
op decides which of the two it meets. Nothing to gain: a warning about the number.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.regime import is_cache_resident
from kernellab.gpumodel.subject import Subject


def look(subject: Subject) -> Finding | None:
    if subject.time_us is None or subject.device is None:
        return None
    warm, cold = (subject.time_us, None) if subject.cache == "warm" else (subject.warm_us, subject.time_us)
    if warm is None or (cold is not None and not is_cache_resident(warm, cold)):
        return None
    if cold is None and subject.fewest_bytes > subject.device.l2_bytes:
        return None
    said = f"{warm:.4g} µs with its data in L2" + (f", {cold:.4g} µs without" if cold else "; not timed without")
    return Finding(
        rule="l2-resident",
        title=f"the time depends on the cache: {said}",
        gain=None,
        do="compare ways with the cache in the same state (klab bench --cache cold,warm) and quote which it was",
        sure="measured",
        evidence=[
            Evidence("fewest bytes", subject.fewest_bytes, "bytes", "declaration"),
            Evidence("L2", subject.device.l2_bytes, "bytes", "GPU"),
            Evidence("warm", warm, "µs", "timing"),
            *([Evidence("cold", cold, "µs", "timing")] if cold else []),
        ],
    )
