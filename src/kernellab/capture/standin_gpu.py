"""The stand-in GPU: the product whose properties torch and Triton see while launches are captured."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machine.chips import Chip, chip
from kernellab.machine.gpus import Gpu, gpu, gpus


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
        """The device's number. It is the architecture's, so that caches keyed by device keep architectures apart."""
        return int(self.arch.removeprefix("sm_"))


def standin_gpu(arch: str) -> StandinGpu:
    """The product of this architecture with the most SMs. If the database has none, a related product's sizes."""
    wanted = chip(arch)
    exact = [product for product in gpus() if product.arch == wanted.arch]
    related = [product for product in gpus() if product.chip.capability[0] == wanted.capability[0]]
    largest = max(exact or related, key=lambda product: product.sms)
    name = largest.name if exact else f"{wanted.arch} with the SMs of {largest.name}"
    return _standin(name, wanted, largest)


def standin_product(name: str) -> StandinGpu:
    """A product of the database by its name."""
    product = gpu(name)
    return _standin(product.name, product.chip, product)


def _standin(name: str, standin_chip: Chip, product: Gpu) -> StandinGpu:
    return StandinGpu(name, standin_chip, product.sms, product.l2_bytes or 0, int(product.memory_gb * 2**30))
