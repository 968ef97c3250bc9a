"""Values that do not fit in registers are stored to local memory and loaded again.

    local bytes = spilled per iteration × iterations × threads
    gain = (predicted time without them + local bytes / bandwidth of what serves them) / predicted time without them

L1 serves local memory where that of the resident threads fits, otherwise L2 does. Its bytes share L1 and L2 with the
kernel's own, so the times add up. Arrays in local memory have a rule of their own: `local_arrays`.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.kernel import LOCAL_ACCESSES, Kernel, count
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel, speedup_without_local_memory

NEEDS = "spilled bytes, and local loads and stores in the code"
GAIN = "their bytes over L1's or L2's bandwidth, added to the time"

_THRESHOLD = 1.1


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    if slowest is None or not slowest[0].spill_bytes:
        return None
    kernel, estimate = slowest
    accesses = count(kernel.hot_code, LOCAL_ACCESSES)
    if not accesses:
        return None
    gain = correct_by_headroom(speedup_without_local_memory(kernel, estimate), subject.headroom)
    if gain < _THRESHOLD:
        return None
    return Finding(
        title=f"{kernel.spill_bytes} bytes per thread are spilled: {kernel.registers} registers do not suffice",
        gain=gain,
        do=_remedy(subject, kernel),
        confidence="likely",
        evidence=[
            Evidence("spilled", kernel.spill_bytes or 0, "bytes per thread", "machine code"),
            Evidence("local loads and stores", accesses, "instructions", "machine code"),
            Evidence("registers", kernel.registers or 0, "per thread", "machine code"),
        ],
    )


def _remedy(subject: Subject, kernel: Kernel) -> str:
    chip = subject.device.chip if subject.device else None
    at_maximum = chip is not None and (kernel.registers or 0) >= chip.registers_per_thread
    if kernel.kind == "triton":
        # Triton distributes a block over its warps: with more warps, each thread holds less of it.
        room = chip is None or kernel.threads < chip.threads_per_block
        smaller = f"use {'more warps (num_warps) or ' if room else ''}a smaller block: each thread then holds less"
        limit = kernel.config.get("maxnreg")
        return f"raise maxnreg={limit}, or {smaller}" if limit and not at_maximum else smaller
    fewer = "smaller tiles, less unrolling"
    if at_maximum:
        return f"a thread cannot have more registers, so let it need fewer: the tile over more threads, {fewer}"
    return f"allow more registers (looser __launch_bounds__, a larger maxrregcount) or need fewer: {fewer}"
