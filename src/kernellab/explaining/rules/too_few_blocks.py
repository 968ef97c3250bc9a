"""Too few blocks: SMs that get none.

A block runs on one SM, so that a grid of G blocks uses min(G, S) of S SMs. Spread over all of them

    gain = S / G

as long as it is the SMs that limit (their arithmetic, or what they can have under way to memory); with a measured time,
no more than the distance to the roof.
"""

from __future__ import annotations

from kernellab.explaining.finding import Evidence, Finding, settled
from kernellab.explaining.prices import main_kernel
from kernellab.explaining.subject import Subject

_LEAST = 1.15


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device = subject.device
    if found is None or device is None or found[0].blocks >= device.sms:
        return None
    kernel, _ = found
    ratio = device.sms / kernel.blocks
    gain = settled(ratio, subject.headroom)
    if subject.headroom is not None:
        gain = min(gain, subject.headroom)
    if gain < _LEAST:
        return None
    return Finding(
        rule="too-few-blocks",
        title=f"{kernel.blocks} blocks on {device.sms} SMs: {device.sms - kernel.blocks} of them stand idle",
        gain=gain,
        do=f"split the work further: {4 * device.sms} blocks or more (4 per SM) also keep the last round cheap; "
        "where rows are few, split along them and combine in a second step",
        sure="computed",
        evidence=[
            Evidence("blocks", kernel.blocks, "", "launch"),
            Evidence("SMs", device.sms, "", "GPU" if subject.measured else "GPU database"),
        ],
    )
