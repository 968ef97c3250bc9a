"""Bank conflicts: lanes of a warp that ask shared memory for different words of one bank, and are served in turn.

Where the addresses could be worked out from the code, the goes a warp's accesses take over the fewest is how much
longer shared memory is busy. An SM's gives 32 words a clock:

    busy = shared accesses × turns × warps × goes each / (SMs × clock)
    gain = max(busy, time predicted) / max(busy without conflicts, time predicted)
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, gained
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import main_kernel, turns

_LEAST = 1.15
_SHARED = ("shared_load", "shared_store")


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device, cost = subject.device, subject.cost
    if found is None or device is None or not cost or (found[0].conflicts or 1.0) <= 1.0:
        return None
    kernel, priced = found
    inside, whole = (sum(code.get(name, 0) for name in _SHARED) for code in (kernel.loop or {}, kernel.instructions))
    accesses, often = (whole, 1.0) if not inside else (inside, max(1.0, turns(kernel, cost["bytes_read"])))
    warps = kernel.blocks * -(-kernel.threads // device.chip.warp_threads) * kernel.times
    goes = accesses * often * warps * kernel.shared_goes
    free_us = goes / min(device.sms, kernel.blocks) / device.clock_mhz
    busy_us = free_us * (kernel.conflicts or 1.0)
    estimate = max(busy_us, priced.time_us) / max(free_us, priced.time_us)
    gain = gained(estimate, subject.headroom, _LEAST)
    if gain is None:
        return None
    return Finding(
        rule="bank-conflicts",
        title=f"a warp's accesses to shared memory take {kernel.conflicts:.3g} times as many goes as they would "
        "without bank conflicts",
        gain=gain,
        do="let neighbouring lanes take neighbouring words: pad the rows of the array by one word, or swizzle its "
        "columns (xor with the row)",
        sure="likely",
        evidence=[
            Evidence("goes over the fewest", kernel.conflicts or 1.0, "", "machine code"),
            Evidence("shared loads and stores", accesses, "instructions", "machine code"),
            Evidence("shared memory busy, predicted", busy_us, "µs", "model"),
        ],
    )
