"""The GPU that answers where there is none, a product or one for an architecture: what torch and Triton ask of it."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machine.chips import Chip, chip
from kernellab.machine.gpus import Gpu, gpu, gpus


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
    own = [known for known in gpus() if known.arch == wanted.arch]
    siblings = [known for known in gpus() if known.chip.capability[0] == wanted.capability[0]]
    found = max(own or siblings, key=lambda known: known.sms)
    name = found.name if own else f"{wanted.arch} with the SMs of {found.name}"
    return _standin(name, wanted, found)


def standin_product(name: str) -> StandinGpu:
    """A product of the database, answering for itself."""
    found = gpu(name)
    return _standin(found.name, found.chip, found)


def _standin(name: str, as_chip: Chip, known: Gpu) -> StandinGpu:
    return StandinGpu(name, as_chip, known.sms, known.l2_bytes or 0, int(known.memory_gb * 2**30))
