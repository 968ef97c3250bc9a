"""The stand-in GPU: the product whose properties torch and Triton see while launches are captured."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machine.chips import Chip, chip
from kernellab.machine.gpus import Gpu, gpu, gpus
from kernellab.machine.tools import has_gpu

_numbers: dict[str, int] = {}


@dataclass(frozen=True)
class StandinGpu:
    """A chip, with the SMs, the L2 cache and the memory of a product that has it."""

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
        """The device's number. Each stand-in of this process has its own: Triton and authors cache by device."""
        first = 1 if has_gpu() else 0
        return _numbers.setdefault(f"{self.name} {self.arch}", first + len(_numbers))

    @property
    def capability_number(self) -> int:
        """90 for sm_90, as Triton names a target."""
        return int(self.arch.removeprefix("sm_"))


def standin_gpu(arch: str) -> StandinGpu:
    """The product of this architecture with the most SMs. If the database has none, a related product's sizes."""
    wanted = chip(arch)
    exact = [product for product in gpus() if product.arch == wanted.arch]
    related = [product for product in gpus() if product.chip.capability[0] == wanted.capability[0]]
    largest = max(exact or related, key=lambda product: product.sms)
    name = largest.name if exact else f"{wanted.arch} with the SMs of {largest.name}"
    return _standin(name, wanted, largest)


def find_standin(name: str) -> StandinGpu:
    """A stand-in by the name of a product or of an architecture."""
    return standin_gpu(name) if name.startswith("sm_") else standin_product(name)


def standin_product(name: str) -> StandinGpu:
    """A product of the database by its name."""
    product = gpu(name)
    return _standin(product.name, product.chip, product)


def _standin(name: str, standin_chip: Chip, product: Gpu) -> StandinGpu:
    return StandinGpu(name, standin_chip, product.sms, product.l2_bytes or 0, int(product.memory_gb * 2**30))
