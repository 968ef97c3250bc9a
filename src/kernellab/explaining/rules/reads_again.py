"""Reads again: one kernel goes over its input in several loops, each with loads of its own.

A second reading is served by L2 while the rows under way fit there, and by memory otherwise; which of the two, the code
does not tell. So it is said only of a way that was timed and is far from its roof, as a possible cause:

    gain = (loops × bytes read + bytes written) / (bytes read + bytes written), no more than the distance to the roof
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, capped
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import main_kernel

_FAR = 1.2


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    cost, headroom = subject.cost, subject.headroom
    if found is None or not cost or headroom is None or headroom < _FAR or cost["flops"].get("matmul"):
        return None
    kernel, _ = found
    if kernel.loading_loops < 2:
        return None
    moved = kernel.loading_loops * cost["bytes_read"] + cost["bytes_written"]
    return Finding(
        rule="reads-again",
        title=f"{kernel.loading_loops} loops load from memory: what the first reads, the next may have to fetch again",
        gain=capped(moved / (cost["bytes_read"] + cost["bytes_written"]), headroom),
        do="keep the row in registers or shared memory between the loops, spread it over a cluster of blocks, or "
        "compute in one pass what two passes compute now",
        sure="possible",
        evidence=[
            Evidence("loops with global loads", kernel.loading_loops, "", "machine code"),
            Evidence("distance to the roof", headroom, "times", "timing"),
        ],
    )
