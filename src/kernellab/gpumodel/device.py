"""A GPU as the model sees it: the measured one, or one of the database."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machine.chips import Chip
from kernellab.machine.gpus import gpu

# The share of the pin bandwidth that a GPU sustains, for GPUs that were not measured. H200: a copy reaches 4273 of
# 4917 GB/s (2026-11-15).
SUSTAINED_SHARE = 0.87

# The tensor cores' names of operand dtypes. float32 operands are rounded to tf32 only on request.
TENSOR_NAMES = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class Device:
    name: str
    chip: Chip
    sms: int
    l2_bytes: int  # 0: not known
    clock_mhz: float
    gbps: float  # copy bandwidth: measured, or estimated from the pin bandwidth

    @classmethod
    def from_database(cls, name: str) -> Device:
        """A GPU of the database by its name, with an estimated copy bandwidth."""
        entry = gpu(name)
        gbps = SUSTAINED_SHARE * entry.pin_gbps
        return cls(entry.name, entry.chip, entry.sms, entry.l2_bytes or 0, entry.boost_mhz, gbps)

    @property
    def peak_matmul_tflops(self) -> dict[str, float]:
        """The vendor's matmul rate by dtype, and of `tf32`. float32 has that of multiply-adds, torch's default."""
        tensor = self.chip.tensor_per_clock
        names = {**TENSOR_NAMES, "tf32": "tf32"}
        per_clock = {dtype: tensor[name] for dtype, name in names.items() if name in tensor}
        per_clock["float32"] = self.chip.fp32_per_clock
        return {dtype: self.sms * rate * self.clock_mhz / 1e6 for dtype, rate in per_clock.items()}
