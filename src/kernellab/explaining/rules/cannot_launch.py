"""Cannot launch: a kernel CUDA would refuse, so that nothing else about it matters.

    refused = blocks that fit on an SM is 0, or the grid is larger than grids can be

Too many threads for a block or for what the kernel was compiled for, more registers or shared memory than a block can
have: see `occupancy`. Not said of a way that was timed: it was launched.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.subject import Kernel, Subject


def look(subject: Subject) -> Finding | None:
    refused = next((k for k in subject.kernels if k.refusal), None)
    if refused is None or subject.measured:
        return None
    return Finding(
        rule="cannot-launch",
        title=f"cannot launch: {refused.refusal}",
        gain=None,
        do=refused.remedy,
        sure="computed",
        evidence=_evidence(refused),
    )


def _evidence(kernel: Kernel) -> list[Evidence]:
    return [
        Evidence("threads per block", kernel.threads, "", "launch"),
        Evidence("registers", kernel.registers or 0, "per thread", "machine code"),
        Evidence("shared memory", kernel.shared_bytes or 0, "bytes", "launch"),
    ]
