"""The GPU that answers for an architecture where there is none: what torch and Triton ask of a device."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machine.chips import Chip, chip
from kernellab.machine.gpus import gpus


@dataclass(frozen=True)
class StandinGpu:
    """A chip with the SMs, the cache and the memory of a product that has it."""

    name: str
    chip: Chip
    sms: int
    l2_bytes: int
    memory_bytes: int

    @property
    def arch(self) -> str:
        return self.chip.arch

    @property
    def index(self) -> int:
        """The number of the device is the architecture's, so that what is cached by device stays apart."""
        return int(self.arch.removeprefix("sm_"))


def standin_gpu(arch: str) -> StandinGpu:
    """The product of this architecture with the most SMs; of a sibling's where the database has none."""
    wanted = chip(arch)
    own = [gpu for gpu in gpus() if gpu.arch == wanted.arch]
    siblings = [gpu for gpu in gpus() if gpu.chip.capability[0] == wanted.capability[0]]
    found = max(own or siblings, key=lambda gpu: gpu.sms)
    name = found.name if own else f"{wanted.arch} with the SMs of {found.name}"
    return StandinGpu(name, wanted, found.sms, found.l2_bytes or 0, int(found.memory_gb * 2**30))
