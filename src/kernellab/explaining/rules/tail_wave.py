"""A tail: the last round of blocks keeps only part of the GPU busy.

    gain = 1 / efficiency of the grid

by the model of `waves`, for kernels bound by what an SM does: arithmetic, declared or counted in the code, or in loops
of unknown turns where nothing else explains the measured time. Kernels bound by memory bandwidth share it whatever SM
their blocks are on, and lose next to nothing.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding, capped
from kernellab.gpumodel.occupancy import occupancy
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import computes, main_kernel
from kernellab.gpumodel.waves import waves

_LEAST = 1.1


def look(subject: Subject) -> Finding | None:
    found = main_kernel(subject)
    device = subject.device
    if found is None or device is None:
        return None
    kernel, priced = found
    if kernel.blocks < device.sms or not computes(subject, kernel, priced) or not kernel.blocks_per_sm:
        return None
    held = occupancy(device.chip, kernel.threads, kernel.registers or 0, kernel.shared_bytes or 0)
    fill = waves(kernel.blocks, device.sms, held, device.chip, bound="compute")
    gain = capped(1 / fill.efficiency, subject.headroom)
    if gain < _LEAST:
        return None
    idle = device.sms - fill.tail_blocks
    return Finding(
        rule="tail-wave",
        title=f"{kernel.blocks} blocks over {device.sms} SMs: {idle} {'stands' if idle == 1 else 'stand'} idle in the "
        f"last of {fill.rounds} rounds",
        gain=gain,
        do=f"choose a grid that is a multiple of {device.sms} ({fill.nearest_multiple} is nearest), smaller blocks "
        f"(from {fill.four_per_sm} on a tail costs a fifth at most), or as many blocks as fit, each taking its share",
        sure="likely",
        evidence=[
            Evidence("blocks", kernel.blocks, "", "launch"),
            Evidence("blocks in the last round", fill.tail_blocks, "", "launch"),
            Evidence("efficiency of the grid", fill.efficiency, "", "model"),
            Evidence("bound by", priced.dearest if priced.bound == "compute" else "its loops", "", "model"),
        ],
    )
