"""Spills: values that found no register, stored to local memory and loaded again.

    local bytes = spilled per turn of the loop × turns × threads
    gain = (time predicted without them + local bytes / bandwidth of what serves them) / time predicted without them

Local memory is served by L1 as far as what the resident threads keep there fits, otherwise by L2. Its bytes take the
same way as the kernel's own, so that their times add up. Arrays that lie there by their nature: see `local_arrays`.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, settled
from kernellab.gpumodel.subject import Kernel, Subject
from kernellab.gpumodel.time_model import main_kernel, without_local

_LEAST = 1.1


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    if found is None or not found[0].spill_bytes:
        return None
    kernel, priced = found
    code = kernel.code
    moves = sum(code.get(name, 0) for name in ("local_load", "local_store"))
    if not moves:
        return None
    gain = settled(without_local(kernel, priced), subject.headroom)
    if gain < _LEAST:
        return None
    return Finding(
        rule="spills",
        title=f"{kernel.spill_bytes} bytes per thread are spilled: {kernel.registers} registers did not suffice",
        gain=gain,
        do=_do(subject, kernel),
        sure="likely",
        evidence=[
            Evidence("spilled", kernel.spill_bytes or 0, "bytes per thread", "machine code"),
            Evidence("local loads and stores", moves, "instructions", "machine code"),
            Evidence("registers", kernel.registers or 0, "per thread", "machine code"),
        ],
    )


def _do(subject: Subject, kernel: Kernel) -> str:
    chip = subject.device.chip if subject.device else None
    most = chip is not None and (kernel.registers or 0) >= chip.registers_per_thread
    if kernel.kind == "triton":
        # The compiler shares the block out: over more warps each thread holds less of it.
        room = chip is None or kernel.threads < chip.threads_per_block
        less = f"take {'more warps (num_warps) or ' if room else ''}a smaller block: each thread holds less then"
        held = kernel.config.get("maxnreg")
        return f"lift maxnreg={held}, or {less}" if held and not most else less
    fewer = "smaller tiles, less unrolling"
    if most:
        return f"a thread cannot have more registers, so let it need fewer: the tile over more threads, {fewer}"
    return f"let it have more registers (looser __launch_bounds__, a larger maxrregcount) or need fewer: {fewer}"
