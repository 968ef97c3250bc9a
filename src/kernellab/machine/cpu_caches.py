"""The data caches of the CPU, as the Linux kernel lists them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 10, "M": 20, "G": 30}
_LEAST_LAST_LEVEL_BYTES = 32 << 20  # assumed if the kernel lists less, or nothing


@dataclass(frozen=True)
class CpuCache:
    level: int
    bytes: int
    cores: int  # number of cores that share it


def data_caches(folder: Path = _FOLDER) -> list[CpuCache]:
    """The caches of the first core, nearest first; empty if the kernel lists none."""
    caches = []
    for index in sorted(folder.glob("index*")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            size = (index / "size").read_text().strip()
            caches.append(
                CpuCache(
                    level=int((index / "level").read_text()),
                    bytes=int(size[:-1]) << _UNITS[size[-1]],
                    cores=_count_cores((index / "shared_cpu_list").read_text()),
                )
            )
    return sorted(caches, key=lambda cache: cache.level)


def last_level_bytes(folder: Path = _FOLDER) -> int:
    """The size of the largest cache, at least 32 MiB."""
    return max([_LEAST_LAST_LEVEL_BYTES, *(cache.bytes for cache in data_caches(folder))])


def _count_cores(text: str) -> int:
    """The number of cores in a list such as `0-3,8`."""
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in spans)
