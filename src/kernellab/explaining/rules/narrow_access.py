"""Loads have few bytes per thread: too little is in flight, and every byte costs instructions.

A thread can load 16 bytes with one instruction. Where each load has w bytes, wider loads raise the bytes in flight by
16 / w with everything else unchanged, and reduce the instructions per byte by as much.

    gain = predicted time / predicted time with 16 bytes per load
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import gain_above
from kernellab.gpumodel.kernel import count
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel

NEEDS = "the widest load in the code; only where its width costs time"
GAIN = "the model with 16 bytes per load"

_WIDE = 16
_NARROW = 4
_COALESCED = 1.5  # sectors over the minimum, up to which a warp's addresses are contiguous
_THRESHOLD = 1.15
_ARITHMETIC = ("fp32", "fp16", "fp64", "special", "conversion")


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    if slowest is None or subject.device is None:
        return None
    kernel, estimate = slowest
    # Loads of 8 bytes gain little, and addresses that are not contiguous cannot be loaded wide.
    if not 0 < kernel.widest_bytes <= _NARROW or (kernel.sectors or 1.0) > _COALESCED:
        return None
    wider = _WIDE / kernel.widest_bytes
    # Arithmetic stays: only instructions for loads, stores and addresses are saved.
    instructions = sum(kernel.hot_code.values())
    arithmetic = count(kernel.hot_code, _ARITHMETIC)
    issue_us = estimate.issue * (arithmetic + (instructions - arithmetic) / wider) / max(1, instructions)
    speedup = estimate.time_us / estimate.time_us_with(flight=estimate.flight / wider, issue=issue_us)
    gain = gain_above(_THRESHOLD, speedup, subject.headroom)
    if gain is None:
        return None
    return Finding(
        title=f"no global load is wider than {kernel.widest_bytes} bytes per thread, and 16 are possible",
        gain=gain,
        do="load 16 bytes per thread at a time: in CUDA C++ float4 or an aligned struct, in Triton a block of at "
        "least 16 bytes per thread with contiguous, provably aligned addresses",
        confidence="likely",
        evidence=[
            Evidence("widest load", kernel.widest_bytes, "bytes", "machine code"),
            Evidence("requested before waiting", kernel.flight_bytes, "bytes per thread", "machine code"),
            Evidence("bottleneck", estimate.bottleneck, "", "model"),
        ],
    )
