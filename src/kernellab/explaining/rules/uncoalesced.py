"""Uncoalesced access: a warp's addresses lie so far apart that memory moves far more than is asked for.

Memory is moved in sectors of 32 bytes. Where the addresses of a warp's accesses could be worked out from the code, the
sectors they touch over the fewest that hold as many bytes is what is moved over what is needed:

    gain = sectors touched / fewest sectors, no more than the distance to the roof

Caches may still serve the rest of a sector to a neighbour, so that the gain is likely, not certain. Where nothing could
be worked out, and the measured time is far beyond what the model of everything else says, this is the usual cause:

    gain = time / predicted time
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import main_kernel

_SPREAD = 1.5
_UNEXPLAINED = 2.5


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None:
        return None
    kernel, priced = found
    if kernel.sectors is not None and kernel.sectors >= _SPREAD:
        return _finding(
            f"a warp's accesses touch {kernel.sectors:.3g} times the sectors their bytes would fill",
            settled(kernel.sectors, subject.headroom),
            "likely",
            [
                Evidence("sectors touched, over the fewest", kernel.sectors, "", "machine code"),
                Evidence("global load", kernel.load_bytes, "bytes per thread", "machine code"),
            ],
        )
    if subject.time_us is None or kernel.sectors is not None or priced.bound != "memory":
        return None
    unexplained = subject.time_us / priced.time_us
    if unexplained < _UNEXPLAINED:
        return None
    return _finding(
        f"{unexplained:.3g} times as slow as its code should be: its accesses may not be coalesced",
        unexplained,
        "possible",
        [
            Evidence("measured", subject.time_us, "µs", "timing"),
            Evidence("predicted", priced.time_us, "µs", "model"),
        ],
    )


def _finding(title: str, gain: float, sure: str, evidence: list[Evidence]) -> Finding:
    return Finding(
        rule="uncoalesced",
        title=title,
        gain=gain,
        do="let neighbouring threads take neighbouring elements: swap the loops, transpose through shared memory, or "
        "make the tensor contiguous along the dim that threads run over",
        sure=sure,
        evidence=evidence,
    )
