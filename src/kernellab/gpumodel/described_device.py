"""A device with its hierarchy: a GPU of the database, the GPU present, or the CPU. The document of `klab device`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from kernellab.gpumodel.hierarchy import Row, cpu_rows, gpu_rows
from kernellab.machine.chips import Chip
from kernellab.machine.cpu_caches import CpuCache
from kernellab.machine.description import CpuJson
from kernellab.machine.gpus import Gpu


@dataclass(frozen=True)
class KnownGpu:
    """A GPU of the database. `requested` is the name on the command line, which may mean several variants."""

    requested: str
    gpu: Gpu
    variants: Sequence[str]

    @property
    def heading(self) -> str:
        return f"{self.gpu.name}: {self.gpu.sms} SMs, {self.gpu.chip.generation} ({self.gpu.chip.arch})"

    @property
    def rows(self) -> list[Row]:
        gpu = self.gpu
        memory = f"{gpu.memory_gb:g} GB {gpu.memory_kind}, {gpu.bus_bits} bit, {gpu.pin_gbps:.0f} GB/s"
        return gpu_rows(gpu.chip, gpu.sms, gpu.l2_bytes, memory)

    @property
    def tensor_tflops(self) -> dict[str, float]:
        """Of the tensor cores at boost clock, by dtype."""
        rates = {dtype: self.gpu.tensor_tflops(dtype) for dtype in self.gpu.chip.tensor_per_clock}
        return {dtype: rate for dtype, rate in rates.items() if rate is not None}

    def to_json(self) -> dict[str, object]:
        facts = {key: value for key, value in asdict(self.gpu).items() if not key.startswith("second")}
        rates = {"fp32": self.gpu.fp32_tflops, **self.tensor_tflops}
        return {
            "kind": "gpu",
            "present": False,
            "asked": self.requested,
            "name": self.gpu.name,
            "variants": list(self.variants),
            "gpu": {**facts, "pin_gbps": self.gpu.pin_gbps, "tflops_at_boost": rates},
            "chip": asdict(self.gpu.chip),
            "rows": [asdict(row) for row in self.rows],
        }


@dataclass(frozen=True)
class PresentGpu:
    """The GPU of this machine, as torch and its driver describe it."""

    name: str
    chip: Chip
    sms: int
    l2_bytes: int | None
    memory_bytes: int | None
    pin_gbps: float | None

    @property
    def heading(self) -> str:
        return f"{self.name}: {self.sms} SMs, {self.chip.generation} ({self.chip.arch})"

    @property
    def rows(self) -> list[Row]:
        pins = f", {self.pin_gbps:.0f} GB/s at the pins" if self.pin_gbps else ""
        memory = f"{(self.memory_bytes or 0) / 2**30:.0f} GiB{pins}"
        return gpu_rows(self.chip, self.sms, self.l2_bytes, memory)

    def to_json(self) -> dict[str, object]:
        gpu = {
            "name": self.name,
            "arch": self.chip.arch,
            "sms": self.sms,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": self.memory_bytes,
            "pin_gbps": self.pin_gbps,
        }
        return {
            "kind": "gpu",
            "present": True,
            "name": self.name,
            "gpu": gpu,
            "chip": asdict(self.chip),
            "rows": [asdict(row) for row in self.rows],
        }


@dataclass(frozen=True)
class PresentCpu:
    """The CPU of this machine, where it has no GPU."""

    cpu: CpuJson
    caches: Sequence[CpuCache]

    @property
    def heading(self) -> str:
        memory = f"{self.cpu['memory_bytes'] / 2**30:.0f} GiB"
        return f"{self.cpu['name']}: {self.cpu['cores']} cores, {memory}; no GPU here"

    @property
    def rows(self) -> list[Row]:
        caches = [asdict(cache) for cache in self.caches]
        return cpu_rows(self.cpu["cores"], self.cpu["memory_bytes"], caches)

    def to_json(self) -> dict[str, object]:
        return {
            "kind": "cpu",
            "present": True,
            "name": self.cpu["name"],
            "cpu": {**self.cpu, "caches": [asdict(cache) for cache in self.caches]},
            "rows": [asdict(row) for row in self.rows],
        }


DescribedDevice = KnownGpu | PresentGpu | PresentCpu
