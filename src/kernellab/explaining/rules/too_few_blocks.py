"""Too few blocks: SMs that get none.

A block runs on one SM, so that a grid of G blocks uses min(G, S) of S SMs. Spread over all of them, a kernel bound by
arithmetic takes G / S of the time. One bound by what is under way to memory gains more, because each SM would hold b
blocks, as many as fit, instead of one:

    gain = time predicted now / time predicted with S SMs in use, b blocks on each

With a measured time, no more than the distance to the roof.
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
    kernel, priced = found
    used = kernel.blocks / device.sms
    spread = {name: getattr(priced, name) * used for name in ("issue", "special", "fp64", "fp32", "local")}
    filled = priced.flight * used / (kernel.blocks_per_sm or 1)
    gain = settled(priced.time_us / priced.without(flight=filled, **spread), subject.headroom)
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
