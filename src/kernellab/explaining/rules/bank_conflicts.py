"""Lanes of a warp access different words of one shared-memory bank, and the accesses are serialised.

Where the addresses could be computed from the code, the transactions relative to the minimum say how much longer shared
memory is busy. An SM's shared memory delivers 32 words per clock:

    busy = shared accesses × iterations × warps × transactions each / (SMs × clock)
    gain = max(busy, predicted time) / max(busy without conflicts, predicted time)
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import gain_above
from kernellab.gpumodel.kernel import SHARED_ACCESSES, count
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import loop_iterations, slowest_kernel

NEEDS = "shared-memory addresses of a warp, computed from the PTX"
GAIN = "transactions over the minimum, where shared memory is the bottleneck"

_THRESHOLD = 1.15


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device, cost = subject.device, subject.cost
    if slowest is None or device is None or not cost:
        return None
    kernel, estimate = slowest
    conflicts = kernel.conflicts or 1.0
    if conflicts <= 1.0:
        return None
    accesses, iterations = count(kernel.loop or {}, SHARED_ACCESSES), 1.0
    if accesses:
        iterations = max(1.0, loop_iterations(kernel, cost["bytes_read"]))
    else:
        accesses = count(kernel.instructions, SHARED_ACCESSES)
    transactions = accesses * iterations * kernel.warps(device.chip.warp_threads) * kernel.shared_goes
    conflict_free_us = transactions / min(device.sms, kernel.blocks) / device.clock_mhz
    busy_us = conflict_free_us * conflicts
    speedup = max(busy_us, estimate.time_us) / max(conflict_free_us, estimate.time_us)
    gain = gain_above(_THRESHOLD, speedup, subject.headroom)
    if gain is None:
        return None
    return Finding(
        title=f"bank conflicts: a warp's accesses to shared memory take {conflicts:.3g} times the minimum of "
        "transactions",
        gain=gain,
        do="let neighbouring lanes access neighbouring words: pad the rows of the array by one word, or swizzle its "
        "columns (xor with the row)",
        confidence="likely",
        evidence=[
            Evidence("transactions over the minimum", conflicts, "", "machine code"),
            Evidence("shared loads and stores", accesses, "instructions", "machine code"),
            Evidence("shared memory busy, predicted", busy_us, "µs", "model"),
        ],
    )
