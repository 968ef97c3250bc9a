"""Issuing instructions takes longer than moving the bytes, and no particular unit is the cause.

    gain = predicted time / predicted time without instructions and special functions

Some instructions have to stay, so the finding is only possible. What causes them often has a rule of its own (narrow
accesses, doubles, spills), which then ranks first. Matmuls have their own rules.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import cap_at_headroom
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel

NEEDS = "instructions or special functions that are the bottleneck in the model"
GAIN = "the model without them; possible, as some have to stay"

_THRESHOLD = 1.3


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    if slowest is None or subject.matmul_flops:
        return None
    kernel, estimate = slowest
    gain = cap_at_headroom(estimate.time_us / estimate.time_us_with(issue=0.0, special=0.0), subject.headroom)
    if estimate.bottleneck not in ("issue", "special") or gain < _THRESHOLD:
        return None
    code = kernel.hot_code
    which = "special functions" if estimate.bottleneck == "special" else "instructions"
    return Finding(
        title=f"its {which} take {gain:.3g} times as long as anything else",
        gain=gain,
        do="compute everything once: move what does not change out of the loop, index without a division per element "
        "and in 32 bits, use intrinsics (__expf, rsqrtf) where their precision suffices, compute several elements per "
        "thread",
        confidence="possible",
        evidence=[
            Evidence("instructions", sum(code.values()), "in the loop" if kernel.loop else "", "machine code"),
            Evidence("special functions", code.get("special", 0), "", "machine code"),
            Evidence("instructions, predicted", estimate.issue, "µs", "model"),
            Evidence("memory, predicted", estimate.memory, "µs", "model"),
        ],
    )
