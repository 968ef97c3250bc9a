"""Too few threads fit on an SM to hide the latency of loads.

Little's law: for its share of the bandwidth an SM needs (bandwidth / SMs) × latency bytes in flight. It has resident
threads × the bytes each requests before it waits.

    gain = min(needed, what full occupancy would have) / what it has

Threads are counted, not warps: blocks of a few threads use whole warps and leave most of their lanes idle. Low
occupancy alone is no flaw: a kernel with enough bytes in flight, or bound by arithmetic, is not reported.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import gain_above
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import bytes_in_flight, needed_bytes_in_flight, slowest_kernel

NEEDS = "threads that fit on an SM and what limits them; only where too few bytes are in flight"
GAIN = "bytes needed in flight over those that are"

_THRESHOLD = 1.2
_LOW = 0.6  # of the threads an SM can hold


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device = subject.device
    if slowest is None or device is None:
        return None
    kernel, estimate = slowest
    if kernel.blocks < device.sms or not kernel.flight_bytes:
        return None
    sm_threads, warp_threads = device.chip.threads_per_sm, device.chip.warp_threads
    # A grid that is too small to fill the SMs is a matter of `too_few_blocks`.
    reachable = min(1.0, kernel.all_threads / device.sms / sm_threads)
    threads = (kernel.blocks_per_sm or 0) * kernel.threads
    if not threads or threads >= _LOW * reachable * sm_threads:
        return None
    in_flight, needed = bytes_in_flight(kernel, device), needed_bytes_in_flight(device)
    at_full_occupancy = reachable * sm_threads * kernel.flight_bytes
    used_lanes = kernel.threads / (-(-kernel.threads // warp_threads) * warp_threads)
    rest_us = estimate.time_us_with(flight=0.0, issue=estimate.issue * used_lanes)
    speedup = estimate.flight / max(estimate.flight * in_flight / at_full_occupancy, rest_us)
    gain = gain_above(_THRESHOLD, min(speedup, max(1.0, needed / in_flight)), subject.headroom)
    if gain is None:
        return None
    whole_warps = f"make blocks of whole warps, {warp_threads} threads each; " if used_lanes < 1 else ""
    return Finding(
        title=f"{threads} of {sm_threads} threads fit on an SM, limited by {kernel.limiter}: too few to hide the "
        "latency of loads",
        gain=gain,
        do=f"{whole_warps}{kernel.remedy}; or give each thread more loads in flight (unroll, wider loads, more stages)",
        confidence="likely",
        evidence=[
            Evidence("occupancy", kernel.occupancy or 0.0, "", "machine code"),
            Evidence("limited by", kernel.limiter, "", "machine code"),
            Evidence("in flight on an SM", in_flight, "bytes", "machine code"),
            Evidence("needed for the full bandwidth", needed, "bytes", "model"),
        ],
    )
