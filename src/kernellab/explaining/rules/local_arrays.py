"""A thread's array is indexed by a variable, so it lies in local memory instead of registers.

Registers have no addresses. An array with an index that is not constant lies in local memory, which is memory behind L1
and L2, however many registers are free. Spills get there too: see `spills`.

    local bytes = bytes of local loads and stores × iterations × threads
    gain = (predicted time without them + local bytes / bandwidth of what serves them) / predicted time without them

A loop that loads nothing from global memory is assumed to go over the whole array once.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import correct_by_headroom
from kernellab.gpumodel.kernel import LOCAL_ACCESSES, TRIGONOMETRY_STACK_BYTES, count
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import slowest_kernel, speedup_without_local_memory

NEEDS = "local loads and stores in the code, without spills"
GAIN = "their bytes over L1's or L2's bandwidth, added to the time"

_THRESHOLD = 1.1


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    if slowest is None:
        return None
    kernel, estimate = slowest
    accesses = count(kernel.instructions, LOCAL_ACCESSES)
    if not accesses or kernel.spill_bytes or kernel.stack_bytes <= TRIGONOMETRY_STACK_BYTES:
        return None
    gain = correct_by_headroom(speedup_without_local_memory(kernel, estimate), subject.headroom)
    # Only the log of ptxas separates arrays from spills.
    or_spills = "" if kernel.spill_bytes == 0 else ", or spills"
    return Finding(
        title=f"{kernel.stack_bytes} bytes per thread are in local memory instead of registers: an array indexed by a "
        f"variable{or_spills}",
        gain=gain if gain >= _THRESHOLD else None,
        do="use constant indices only (unroll the loops over it, select with a condition instead of an index), or keep "
        "it in shared memory",
        confidence="likely",
        evidence=[
            Evidence("local memory", kernel.stack_bytes, "bytes per thread", "machine code"),
            Evidence("local loads and stores", accesses, "instructions", "machine code"),
            Evidence("local memory, predicted", estimate.local, "µs", "model"),
        ],
    )
