"""CUDA would refuse to launch a kernel, so nothing else about it matters.

    refused = no block fits on an SM, or the grid or the block is too large along a dim

The block has more threads than the architecture allows or than the kernel was compiled for, or needs more registers or
shared memory than a block can have: see `gpumodel/occupancy.py`. An implementation that was timed could be launched.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, Precedence
from kernellab.gpumodel.subject import Subject

NEEDS = (
    "threads, registers and shared memory of a block and the shape of the grid, against CUDA's limits and what the "
    "kernel was compiled for; not for an implementation that was timed"
)
GAIN = "none: only this is reported, with what would lift the refusal"
PRECEDENCE = Precedence.ALONE


def examine(subject: Subject) -> Finding | None:
    kernel = next((k for k in subject.kernels if k.refusal), None)
    if kernel is None or subject.measured:
        return None
    return Finding(
        title=f"cannot launch: {kernel.refusal}",
        do=kernel.remedy,
        confidence="computed",
        evidence=[
            Evidence("threads per block", kernel.threads, "", "launch"),
            Evidence("registers", kernel.registers or 0, "per thread", "machine code"),
            Evidence("shared memory", kernel.shared_bytes or 0, "bytes", "launch"),
        ],
    )
