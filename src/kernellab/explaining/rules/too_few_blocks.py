"""Too few blocks: SMs that get none, or too few of them on each to hide the time a load takes.

A block runs on one SM, so that a grid of G blocks uses min(G, S) of S SMs. Spread over all of them, a kernel bound by
arithmetic takes G / S of the time. One bound by what is under way to memory gains more, because each SM would hold b
blocks, as many as fit, instead of one or of G / S:

    gain = time predicted now / time predicted with S SMs in use, b blocks on each

A grid that reaches every SM is told of this only where each thread goes over several portions, one after the other:
otherwise there is no work for more blocks. With a measured time, no more than the distance to the roof.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.subject import Kernel, Subject
from kernellab.gpumodel.time_model import computes, main_kernel, turns

_LEAST = 1.15
_PORTIONS = 2.0
_BY_SM = ("issue", "special", "fp64", "fp32", "matmul", "local")


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device, cost = subject.device, subject.cost
    if found is None or device is None or not cost:
        return None
    kernel, priced = found
    room = max(1, kernel.blocks_per_sm or 1)
    used = kernel.blocks / device.sms
    idle = used < 1
    if used >= room or (not idle and turns(kernel, cost["bytes_read"]) < _PORTIONS):
        return None
    spread = {name: getattr(priced, name) * min(1.0, used) for name in _BY_SM}
    estimate = priced.time_us / priced.without(flight=priced.flight * used / room, **spread)
    if idle and computes(subject, kernel, priced):
        estimate = max(estimate, 1 / used)
    gain = settled(estimate, subject.headroom)
    if gain < _LEAST:
        return None
    return Finding(
        rule="too-few-blocks",
        title=f"{_blocks(kernel)} on {device.sms} SMs: {device.sms - kernel.blocks} of them stand idle"
        if idle
        else f"{_blocks(kernel)} of {kernel.threads} threads on {device.sms} SMs, where {room * device.sms} would fit: "
        "too few to hide the time loads take",
        gain=gain,
        do=f"split the work further: {4 * device.sms} blocks or more (4 per SM) also keep the last round cheap; "
        "where rows are few, split along them and combine in a second step",
        sure="computed" if idle else "likely",
        evidence=[
            Evidence("blocks", kernel.blocks, "", "launch"),
            Evidence("SMs", device.sms, "", "GPU" if subject.measured else "GPU database"),
            Evidence("blocks that fit on an SM", room, "", "machine code"),
        ],
    )


def _blocks(kernel: Kernel) -> str:
    return f"{kernel.blocks} block{'' if kernel.blocks == 1 else 's'}"
