"""Empties the cache between windows, so that calls find their data in memory, as they do in a real program."""

from __future__ import annotations

import torch

from kernellab.machine.cpu_caches import last_level_bytes

_LEAST_BYTES = {"cuda": 256 << 20, "cpu": 64 << 20}


class CacheFlush:
    """Writes a buffer of at least twice the size of the cache. On a GPU the write is queued, not waited for."""

    def __init__(self, device: torch.device) -> None:
        self.bytes = max(2 * cache_bytes(device), _LEAST_BYTES[device.type])
        self._buffer = torch.empty(self.bytes // 4, dtype=torch.int32, device=device)
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        self._buffer.fill_(self._count)


def cache_bytes(device: torch.device) -> int:
    """The size of the device's last-level cache."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return last_level_bytes()
