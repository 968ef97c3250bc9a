"""Narrow access: loads of few bytes per thread, so that too little is under way and every byte costs instructions.

A thread can ask for 16 bytes with one instruction. With w bytes of each load, the bytes under way grow by 16 / w where
nothing else changes, and the instructions per byte shrink by as much.

    gain = time predicted now / time predicted with 16 bytes per load, by the dearest of memory, flight and issue
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, gained
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import main_kernel

_WIDE = 16
_LEAST = 1.15


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None or subject.device is None:
        return None
    kernel, priced = found
    if not kernel.widest_bytes or kernel.widest_bytes > 4 or (kernel.sectors or 1.0) > 1.5:
        return None  # 8 bytes are half way, and what is not contiguous cannot be loaded wide
    wider = _WIDE / kernel.widest_bytes
    # Arithmetic stays as it is: of the issue slots those for moving and addressing are saved.
    code = kernel.code
    arithmetic = sum(code.get(name, 0) for name in ("fp32", "fp16", "fp64", "special", "conversion"))
    issue = priced.issue * (arithmetic + (sum(code.values()) - arithmetic) / wider) / max(1, sum(code.values()))
    estimate = priced.time_us / priced.without(flight=priced.flight / wider, issue=issue)
    gain = gained(estimate, subject.headroom, _LEAST)
    if gain is None:
        return None
    return Finding(
        rule="narrow-access",
        title=f"no global load is wider than {kernel.widest_bytes} bytes per thread, where 16 would do",
        gain=gain,
        do="give each thread 16 bytes at a time: in CUDA C++ float4 or an aligned struct, in Triton a block of at "
        "least 16 bytes per thread with contiguous, provably aligned addresses",
        sure="likely",
        evidence=[
            Evidence("widest load", kernel.widest_bytes, "bytes", "machine code"),
            Evidence("asked for before waiting", kernel.flight_bytes, "bytes per thread", "machine code"),
            Evidence("dearest item", priced.dearest, "", "model"),
        ],
    )
