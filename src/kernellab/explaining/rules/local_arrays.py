"""Local arrays: an array of a thread's own that is indexed by what is known only while it runs.

Registers have no addresses. An array whose index is no constant lies in local memory, which is memory behind L1 and L2,
however many registers are left; `spills` is the other way to get there.

    local bytes = bytes of local loads and stores × turns × threads
    gain = (time predicted without them + local bytes / bandwidth of what serves them) / time predicted without them

A loop that loads nothing from global memory is taken to go over the whole array once.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.subject import TRIGONOMETRY_BYTES, Subject
from kernellab.gpumodel.time_model import main_kernel, without_local

_LEAST = 1.1


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None or found[0].spill_bytes or found[0].stack_bytes <= TRIGONOMETRY_BYTES:
        return None
    kernel, priced = found
    moves = sum(kernel.instructions.get(name, 0) for name in ("local_load", "local_store"))
    if not moves:
        return None
    gain = settled(without_local(kernel, priced), subject.headroom)
    # Without ptxas a spill looks the same.
    surely = (
        "an array indexed by a variable" if kernel.spill_bytes == 0 else "an array indexed by a variable, or spills"
    )
    return Finding(
        rule="local-arrays",
        title=f"{kernel.stack_bytes} bytes per thread lie in local memory, which is no register: {surely}",
        gain=gain if gain >= _LEAST else None,
        do="index it by constants alone (unroll the loops over it, choose with a condition instead of an index), or "
        "keep it in shared memory",
        sure="likely",
        evidence=[
            Evidence("local memory", kernel.stack_bytes, "bytes per thread", "machine code"),
            Evidence("local loads and stores", moves, "instructions", "machine code"),
            Evidence("local memory, predicted", priced.local, "µs", "model"),
        ],
    )
