"""The grid is too small: SMs get no block, or too few blocks to hide the latency of loads.

A block runs on one SM, so a grid of G blocks uses min(G, S) of S SMs. Spread over all of them, a kernel bound by
arithmetic takes G / S of the time. A kernel bound by its bytes in flight gains more, because each SM would hold b
blocks, as many as fit, instead of one or of G / S:

    gain = predicted time / predicted time with S SMs in use and b blocks on each

The kernels beside it take what they took.

A grid that reaches every SM is reported only where each thread goes over several portions, one after the other:
otherwise there is no work for more blocks.
"""

from __future__ import annotations

from kernellab.base.text import plural
from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import is_compute_bound, loop_iterations, slowest_kernel, speedup_of_all

NEEDS = (
    "a grid smaller than the number of SMs; or smaller than what fits on them, where each thread goes over several "
    "portions"
)
GAIN = (
    "the model with all SMs in use and as many blocks on each as fit: SMs / blocks where arithmetic bounds, up to that "
    "times the blocks that fit where bytes in flight do"
)

_THRESHOLD = 1.15
_PORTIONS = 2.0
_RESOURCES_OF_AN_SM = ("issue", "special", "fp64", "fp32", "matmul", "local")


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device, cost = subject.device, subject.cost
    if slowest is None or device is None or not cost:
        return None
    kernel, estimate = slowest
    fitting = max(1, kernel.blocks_per_sm or 1)
    per_sm = kernel.blocks / device.sms
    some_idle = per_sm < 1
    if per_sm >= fitting or (not some_idle and loop_iterations(kernel, cost["bytes_read"]) < _PORTIONS):
        return None
    spread_us = {name: getattr(estimate, name) * min(1.0, per_sm) for name in _RESOURCES_OF_AN_SM}
    speedup = estimate.time_us / estimate.time_us_with(flight=estimate.flight * per_sm / fitting, **spread_us)
    if some_idle and is_compute_bound(subject, kernel, estimate):
        speedup = max(speedup, 1 / per_sm)
    gain = correct_by_headroom(speedup_of_all(subject, estimate, speedup), subject.headroom)
    if gain < _THRESHOLD:
        return None
    of_several = f"{kernel.name}: " if len(subject.kernels) > 1 else ""
    blocks = of_several + plural(kernel.blocks, "block")
    if some_idle:
        title = f"{blocks} on {device.sms} SMs: {device.sms - kernel.blocks} of the SMs are idle"
    else:
        title = (
            f"{blocks} of {kernel.threads} threads on {device.sms} SMs, where {fitting * device.sms} would fit: "
            "too few to hide the latency of loads"
        )
    return Finding(
        title=title,
        gain=gain,
        do=f"split the work further: {4 * device.sms} blocks or more (4 per SM) also keep the last round cheap; where "
        "there are few rows, split each of them and combine in a second step",
        confidence="computed" if some_idle else "likely",
        evidence=[
            Evidence("blocks", kernel.blocks, "", "launch"),
            Evidence("SMs", device.sms, "", "GPU" if subject.measured else "GPU database"),
            Evidence("blocks that fit on an SM", fitting, "", "machine code"),
        ],
    )
