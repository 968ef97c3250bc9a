"""Spills: values that found no register, stored to local memory and loaded again.

    local bytes = spilled per turn of the loop × turns × threads
    gain = time predicted now / time predicted without them

Local memory is served by L1 as far as what the resident threads keep there fits, otherwise by L2. Local bytes also
stand in the way of the kernel's own loads, which the model does not know: with a measured time the gain is what is
missing to the roof, where the model comes near it.
"""

from __future__ import annotations

from kernellab.explaining.finding import Evidence, Finding, settled
from kernellab.explaining.prices import main_kernel
from kernellab.explaining.subject import Subject

_LEAST = 1.1


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None or not found[0].spill_bytes:
        return None
    kernel, priced = found
    code = kernel.loop or kernel.instructions
    moves = sum(code.get(name, 0) for name in ("local_load", "local_store"))
    if not moves:
        return None
    # They also take issue slots, and each waits like a load.
    issue = priced.issue * (1 - moves / max(1, sum(code.values())))
    estimate = priced.without() / priced.without(local=0.0, issue=issue)
    loads = code.get("global_load", 0) + code.get("async_copy", 0)
    own = loads * kernel.load_bytes
    # Local and global bytes go through the same L1: the share of the local ones is time the others wait.
    estimate = max(estimate, 1 + _l1_share(own, kernel.spill_bytes or 0))
    gain = settled(estimate, subject.headroom)
    if gain < _LEAST:
        return None
    return Finding(
        rule="spills",
        title=f"{kernel.spill_bytes} bytes per thread are spilled: {kernel.registers} registers did not suffice",
        gain=gain,
        do="let it have more registers (a larger maxnreg, looser __launch_bounds__, fewer warps) or need fewer: "
        "smaller tiles, less unrolling",
        sure="likely",
        evidence=[
            Evidence("spilled", kernel.spill_bytes or 0, "bytes per thread", "machine code"),
            Evidence("local loads and stores", moves, "instructions", "machine code"),
            Evidence("registers", kernel.registers or 0, "per thread", "machine code"),
        ],
    )


def _l1_share(own: float, spilled: float) -> float:
    return spilled / own if own else 0.0
