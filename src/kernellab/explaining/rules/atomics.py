"""Many threads may wait for each other at the addresses of atomics.

How many threads meet at an address is not in the code. The rule therefore applies only to an implementation that was
timed, is far slower than the model predicts, and has atomics on global memory:

    gain = time / predicted time, capped at the headroom
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import cap_at_headroom
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import UNEXPLAINED_FACTOR, slowest_kernel

NEEDS = "atomics on global memory in an implementation that is far slower than the model predicts"
GAIN = "time over the predicted time; possible"


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    if slowest is None or subject.time_us is None:
        return None
    kernel, estimate = slowest
    atomics = kernel.instructions.get("global_atomic", 0)
    unexplained = subject.time_us / estimate.time_us
    if not atomics or unexplained < UNEXPLAINED_FACTOR:
        return None
    return Finding(
        title=f"{unexplained:.3g} times slower than the model predicts, with atomics: threads may wait for each other "
        "at the same addresses",
        gain=cap_at_headroom(unexplained, subject.headroom),
        do="add up within the block first (shuffles, shared memory) and let one thread add the block's sum; or write "
        "one sum per block and add those in a second step",
        confidence="possible",
        evidence=[
            Evidence("atomics on global memory", atomics, "instructions", "machine code"),
            Evidence("measured", subject.time_us, "µs", "timing"),
            Evidence("predicted", estimate.time_us, "µs", "model"),
        ],
    )
