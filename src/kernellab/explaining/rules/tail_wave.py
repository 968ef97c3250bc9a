"""The last round of blocks keeps only a part of the GPU busy.

    gain = 1 / efficiency of the grid

The efficiency is that of `gpumodel/waves.py`. The rule applies to kernels bound by what an SM does: arithmetic,
declared or counted in the code, or in loops of unknown length where nothing else explains the measured time. Kernels
bound by memory bandwidth share it on whichever SM their blocks run, and lose next to nothing.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.findings.gain import cap_at_headroom
from kernellab.gpumodel.occupancy import occupancy
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import is_compute_bound, slowest_kernel
from kernellab.gpumodel.waves import waves

NEEDS = "grid, SMs and what fits on an SM; only where arithmetic bounds"
GAIN = "1 / efficiency of the grid ([waves](waves.md))"

_THRESHOLD = 1.1


def examine(subject: Subject) -> Finding | None:
    slowest = slowest_kernel(subject)
    device = subject.device
    if slowest is None or device is None:
        return None
    kernel, estimate = slowest
    if kernel.blocks < device.sms or not is_compute_bound(subject, kernel, estimate) or not kernel.blocks_per_sm:
        return None
    fits = occupancy(device.chip, kernel.threads, kernel.registers or 0, kernel.shared_bytes or 0)
    grid = waves(kernel.blocks, device.sms, fits, device.chip, bound="compute")
    gain = cap_at_headroom(1 / grid.efficiency, subject.headroom)
    if gain < _THRESHOLD:
        return None
    idle = device.sms - grid.tail_blocks
    return Finding(
        title=f"{kernel.blocks} blocks over {device.sms} SMs: {idle} {'is' if idle == 1 else 'are'} idle in the last "
        f"of {grid.rounds} rounds",
        gain=gain,
        do=f"choose a grid that is a multiple of {device.sms} ({grid.nearest_multiple} is nearest), smaller blocks "
        f"(from {grid.four_per_sm} blocks on a tail costs a fifth at most), or as many blocks as fit, each with its "
        "share of the work",
        confidence="likely",
        evidence=[
            Evidence("blocks", kernel.blocks, "", "launch"),
            Evidence("blocks in the last round", grid.tail_blocks, "", "launch"),
            Evidence("efficiency of the grid", grid.efficiency, "", "model"),
            Evidence("bound by", estimate.bottleneck if estimate.bound == "compute" else "its loops", "", "model"),
        ],
    )
