"""Low occupancy: too few warps on an SM to hide the time a load takes.

Little's law: to get its share of the bandwidth an SM needs (bandwidth / SMs) × latency bytes under way; resident warps
× what each asks for before it waits is what it has.

    gain = min(needed, what full occupancy would have) / what it has

Threads are counted, not warps: blocks of a few threads take whole warps and leave most lanes of them idle.
Low occupancy alone is no flaw: a kernel with enough under way, or bound by arithmetic, is not told of it.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, gained
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import flight_bytes, main_kernel, needed_bytes

_LEAST, _LOW = 1.2, 0.6


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device = subject.device
    if found is None or device is None or found[0].blocks < device.sms:
        return None
    kernel, priced = found
    # More than half the warps there can be is not few, and a grid too small to fill them is another matter.
    wanted = min(1.0, kernel.all_threads / device.sms / device.chip.threads_per_sm)
    threads = (kernel.blocks_per_sm or 0) * kernel.threads
    if not threads or threads >= _LOW * wanted * device.chip.threads_per_sm or not kernel.flight_bytes:
        return None
    under_way = flight_bytes(kernel, device)
    full = wanted * device.chip.threads_per_sm * kernel.flight_bytes
    used = kernel.threads / (-(-kernel.threads // device.chip.warp_threads) * device.chip.warp_threads)
    rest = priced.without(flight=0.0, issue=priced.issue * used)
    estimate = priced.flight / max(priced.flight * under_way / full, rest)
    estimate = min(estimate, max(1.0, needed_bytes(device) / under_way))
    gain = gained(estimate, subject.headroom, _LEAST)
    if gain is None:
        return None
    whole = f"make blocks of whole warps, {device.chip.warp_threads} threads each; " if used < 1 else ""
    return Finding(
        rule="low-occupancy",
        title=f"{threads} of {device.chip.threads_per_sm} threads fit on an SM, limited by {kernel.limiter}: "
        "too few to hide the time loads take",
        gain=gain,
        do=f"{whole}{kernel.remedy}; or let each thread have more loads under way (unroll, wider loads, more stages)",
        sure="likely",
        evidence=[
            Evidence("occupancy", kernel.occupancy or 0.0, "", "machine code"),
            Evidence("limited by", kernel.limiter, "", "machine code"),
            Evidence("under way on an SM", under_way, "bytes", "machine code"),
            Evidence("needed for the full bandwidth", needed_bytes(device), "bytes", "model"),
        ],
    )
