"""One kernel reads its input in several loops, each with loads of its own.

L2 serves the second read while the rows in use fit there, otherwise memory does. Which one is not in the code. The rule
therefore applies only to an implementation that was timed and is far from its limit, as a possible cause:

    gain = (loops × bytes read + bytes written) / (bytes read + bytes written), capped at the headroom
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import cap_at_headroom
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel

NEEDS = "several loops with loads, in an implementation that is far from its limit"
GAIN = "the bytes read once per loop over the fewest; possible, as L2 may serve them"

_FAR = 1.2


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    cost, headroom = subject.cost, subject.headroom
    if slowest is None or not cost or headroom is None or headroom < _FAR or subject.matmul_flops:
        return None
    kernel, _ = slowest
    if kernel.loading_loops < 2:
        return None
    moved = kernel.loading_loops * cost["bytes_read"] + cost["bytes_written"]
    return Finding(
        title=f"{kernel.loading_loops} loops load from memory: each may fetch again what the first one has read",
        gain=cap_at_headroom(moved / (cost["bytes_read"] + cost["bytes_written"]), headroom),
        do="keep the row in registers or shared memory between the loops, spread it over a cluster of blocks, or "
        "compute in one pass what two passes compute now",
        confidence="possible",
        evidence=[
            Evidence("loops with global loads", kernel.loading_loops, "", "machine code"),
            Evidence("headroom", headroom, "times", "timing"),
        ],
    )
