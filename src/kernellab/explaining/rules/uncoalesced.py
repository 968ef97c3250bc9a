"""The addresses of a warp are so far apart that memory moves far more than is requested.

Memory moves sectors of 32 bytes. Where the addresses of a warp's accesses could be computed from the code, the sectors
they touch over the fewest that hold as many bytes is what moves over what is needed:

    gain = sectors touched / fewest sectors, corrected by the headroom

Caches may serve the rest of a sector to a neighbour, so the gain is likely, not certain. Where no address could be
computed, and the measured time is far beyond what the model predicts, this is the usual cause:

    gain = time / predicted time
"""

from __future__ import annotations

from kernellab.findings.finding import Confidence, Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel

NEEDS = "addresses of a warp, computed from the PTX; without them, a time that nothing else explains"
GAIN = "sectors touched over the fewest"

_SCATTERED = 1.5
_FAR_SLOWER = 2.5  # than the model predicts, as a factor


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    if slowest is None:
        return None
    kernel, estimate = slowest
    if kernel.sectors is not None and kernel.sectors >= _SCATTERED:
        return _finding(
            f"uncoalesced: a warp's accesses touch {kernel.sectors:.3g} times the sectors their bytes would fill",
            correct_by_headroom(kernel.sectors, subject.headroom),
            "likely",
            [
                Evidence("sectors touched, over the fewest", kernel.sectors, "", "machine code"),
                Evidence("global load", kernel.load_bytes, "bytes per thread", "machine code"),
            ],
        )
    if subject.time_us is None or kernel.sectors is not None or estimate.bound != "memory":
        return None
    unexplained = subject.time_us / estimate.time_us
    if unexplained < _FAR_SLOWER:
        return None
    return _finding(
        f"{unexplained:.3g} times slower than the model predicts: its accesses may not be coalesced",
        unexplained,
        "possible",
        [
            Evidence("measured", subject.time_us, "µs", "timing"),
            Evidence("predicted", estimate.time_us, "µs", "model"),
        ],
    )


def _finding(title: str, gain: float, confidence: Confidence, evidence: list[Evidence]) -> Finding:
    return Finding(
        title=title,
        gain=gain,
        do="let neighbouring threads access neighbouring elements: swap the loops, transpose through shared memory, or "
        "make the tensor contiguous along the dim that threads run over",
        confidence=confidence,
        evidence=evidence,
    )
