"""Memory: how much a call needs at its peak, and how much would have been needed where there was not enough."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TRIED = re.compile(r"[Tt]ried to allocate ([\d.]+) (\w+)")


def is_memory_error(error: BaseException) -> bool:
    said = ("can't allocate memory", "CUDA error: out of memory")
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(part in _text(error) for part in said)


def needed_bytes(error: BaseException, device: torch.device) -> int | None:
    """At least this much memory would have been needed: what was in use, and what was asked for on top."""
    found = _TRIED.search(_text(error))
    if found is None or found.group(2) not in _UNITS:
        return None
    asked = int(float(found.group(1)) * _UNITS[found.group(2)])
    in_use = torch.cuda.memory_allocated(device) if device.type == "cuda" else _resident()[0]
    return asked + in_use


def out_of_memory(error: BaseException, device: torch.device) -> dict[str, Any]:
    """What is recorded of an error that says so."""
    needed = needed_bytes(error, device)
    if needed is None:
        return {"status": "oom", "reason": (_text(error).strip().splitlines() or ["no memory"])[0]}
    reason = f"out of memory: needs at least {_said(needed)}, {device} has {_said(_there_is(device))}"
    return {"status": "oom", "reason": reason, "needed_bytes": needed}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # its __str__ has a mistake of its own
        return ""


def peak(call: Callable[[], Any], device: torch.device) -> dict[str, int]:
    """The most memory in use during a call beyond what was before it.

    On a GPU what tensors held (`allocated`) and what PyTorch took from the driver for them (`reserved`);
    on the CPU what the process had resident.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        result = call()
        torch.cuda.synchronize(device)
        after = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
        del result
        return {"allocated_bytes": after[0] - before[0], "reserved_bytes": after[1] - before[1]}
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back, or taking it again would not show
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    before_rss, _ = _resident()
    result = call()
    _, high = _resident()
    del result
    return {"resident_bytes": max(0, high - before_rss)}


def free_bytes(device: torch.device) -> int:
    """What could still be allocated: free memory, and what torch keeps for reuse."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    import psutil

    return int(psutil.virtual_memory().available)


def _resident() -> tuple[int, int]:
    """What this process has in memory now, and the most it ever had, in bytes."""
    found = {"VmRSS": 0, "VmHWM": 0}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) << 10
    return found["VmRSS"], found["VmHWM"]


def _there_is(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    import psutil

    return int(psutil.virtual_memory().total)


def _said(size: int) -> str:
    return f"{size / 2**30:.3g} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"
