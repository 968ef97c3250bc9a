"""Atomics: many threads that add to the same few addresses wait for each other.

How many threads meet at an address is not in the code, nor which of them get there. So it is said only of a way that
was timed, takes far longer than everything else accounts for, and has atomics on global memory:

    gain = time / predicted time, no more than the distance to the roof
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, capped
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import UNEXPLAINED, main_kernel


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None or subject.time_us is None:
        return None
    kernel, priced = found
    count = kernel.instructions.get("global_atomic", 0)
    unexplained = subject.time_us / priced.time_us
    if not count or unexplained < UNEXPLAINED:
        return None
    return Finding(
        rule="atomics",
        title=f"{unexplained:.3g} times as slow as its code should be, and it has atomics: threads may wait for each "
        "other at the same addresses",
        gain=capped(unexplained, subject.headroom),
        do="add up within the block first (shuffles, shared memory) and let one thread add the block's sum; or write "
        "one sum per block and add those in a second step",
        sure="possible",
        evidence=[
            Evidence("atomics on global memory", count, "instructions", "machine code"),
            Evidence("measured", subject.time_us, "µs", "timing"),
            Evidence("predicted", priced.time_us, "µs", "model"),
        ],
    )
