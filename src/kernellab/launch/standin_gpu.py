"""The GPU that answers for an architecture where there is none: what torch and Triton ask of a device."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.errors import UserError, nearest
from kernellab.launch.launches import capability

_KB = 1024


@dataclass(frozen=True)
class StandinGpu:
    """`index` is the number of the device: the architecture's, so that what is cached by device stays apart."""

    arch: str
    name: str
    sms: int
    threads_per_sm: int
    registers_per_sm: int
    shared_per_block_bytes: int
    shared_per_sm_bytes: int
    l2_bytes: int
    memory_bytes: int

    @property
    def capability(self) -> tuple[int, int]:
        return capability(self.arch)

    @property
    def index(self) -> int:
        return 10 * self.capability[0] + self.capability[1]


def _gpu(
    arch: str, name: str, sms: int, threads: int, block_kb: int, sm_kb: int, l2_mb: int, memory_gb: int
) -> StandinGpu:
    return StandinGpu(arch, name, sms, threads, 65536, block_kb * _KB, sm_kb * _KB, l2_mb << 20, memory_gb << 30)


_GPUS = {
    gpu.arch: gpu
    for gpu in (
        _gpu("sm_75", "T4", 40, 1024, 64, 64, 4, 16),
        _gpu("sm_80", "A100", 108, 2048, 163, 164, 40, 80),
        _gpu("sm_86", "RTX 3090", 82, 1536, 99, 100, 6, 24),
        _gpu("sm_89", "RTX 4090", 128, 1536, 99, 100, 72, 24),
        _gpu("sm_90", "H100", 132, 2048, 227, 228, 50, 80),
        _gpu("sm_100", "B200", 148, 2048, 227, 228, 126, 180),
        _gpu("sm_120", "RTX 5090", 170, 1536, 99, 100, 96, 32),
    )
}


def standin_gpu(arch: str) -> StandinGpu:
    if arch not in _GPUS:
        raise UserError(f"no architecture {arch!r}: {nearest(arch, _GPUS)}")
    return _GPUS[arch]
