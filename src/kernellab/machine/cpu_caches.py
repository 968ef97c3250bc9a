"""The CPU's data caches, as the kernel lists them; empty where it does not."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

_UNITS = {"K": 10, "M": 20, "G": 30}


def caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> list[dict[str, Any]]:
    """Those of the first core, nearest first: `level`, `bytes`, and how many `cores` share it."""
    found = []
    for index in sorted(folder.glob("index*")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            size = (index / "size").read_text().strip()
            found.append(
                {
                    "level": int((index / "level").read_text()),
                    "bytes": int(size[:-1]) << _UNITS[size[-1]],
                    "cores": _members((index / "shared_cpu_list").read_text()),
                }
            )
    return sorted(found, key=lambda cache: int(cache["level"]))


def _members(text: str) -> int:
    """How many `0-3,8` are."""
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in spans)
