"""Many instructions: starting them takes longer than moving the bytes, and no unit in particular is to blame.

    gain = time predicted now / time predicted without instructions and special functions

It is what is left of them that decides, so that this is possible and no more; what makes them many often has a rule of
its own (narrow accesses, doubles, spills), which then comes first. Products are left to their own rules.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, capped
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import main_kernel

_LEAST = 1.3


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None or (subject.cost or {}).get("flops", {}).get("matmul"):
        return None
    kernel, priced = found
    gain = capped(priced.time_us / priced.without(issue=0.0, special=0.0), subject.headroom)
    if priced.dearest not in ("issue", "special") or gain < _LEAST:
        return None
    code = kernel.code
    what = "special functions" if priced.dearest == "special" else "instructions"
    return Finding(
        rule="many-instructions",
        title=f"its {what} take {gain:.3g} times as long as anything else: bytes wait for them",
        gain=gain,
        do="compute each thing once: out of the loop what does not change in it, indices without a division per "
        "element and in 32 bits, intrinsics (__expf, rsqrtf) where their precision will do, several elements per "
        "thread",
        sure="possible",
        evidence=[
            Evidence("instructions", sum(code.values()), "in the loop" if kernel.loop else "", "machine code"),
            Evidence("special functions", code.get("special", 0), "", "machine code"),
            Evidence("instructions, predicted", priced.issue, "µs", "model"),
            Evidence("memory, predicted", priced.memory, "µs", "model"),
        ],
    )
