"""Memory: the peak of a call, and how much memory a call that ran out of it would have needed."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import NotRequired, TypedDict

import torch

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_REQUESTED = re.compile(r"[Tt]ried to allocate ([\d.]+) (\w+)")
_MEMORY_MESSAGES = ("can't allocate memory", "CUDA error: out of memory")


class OutOfMemory(TypedDict):
    """An outcome with the status `oom`."""

    status: str
    reason: str
    needed_bytes: NotRequired[int]


class PeakMemory(TypedDict, total=False):
    """Bytes in use at the peak of a call, beyond what was in use before it."""

    allocated_bytes: int
    reserved_bytes: int
    resident_bytes: int


def is_memory_error(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = _text(error)
    return any(message in text for message in _MEMORY_MESSAGES)


def out_of_memory(error: BaseException, device: torch.device) -> OutOfMemory:
    """The outcome to record for a memory error."""
    needed = _needed_bytes(error, device)
    if needed is None:
        return {"status": "oom", "reason": (_text(error).strip().splitlines() or ["no memory"])[0]}
    reason = f"out of memory: needs at least {_format(needed)}, {device} has {_format(_total_bytes(device))}"
    return {"status": "oom", "reason": reason, "needed_bytes": needed}


def _needed_bytes(error: BaseException, device: torch.device) -> int | None:
    """A lower bound of the memory needed: what was in use, plus what was requested."""
    match = _REQUESTED.search(_text(error))
    if match is None or match.group(2) not in _UNITS:
        return None
    requested = int(float(match.group(1)) * _UNITS[match.group(2)])
    in_use = torch.cuda.memory_allocated(device) if device.type == "cuda" else _resident_bytes()[0]
    return requested + in_use


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # its __str__ may itself fail
        return ""


def peak(call: Callable[[], object], device: torch.device) -> PeakMemory:
    """The peak of memory in use during a call, beyond what was in use before it.

    On a GPU, `allocated_bytes` is what tensors held and `reserved_bytes` what PyTorch took from the driver for them. On
    the CPU, `resident_bytes` is the resident memory of the process.
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
        ctypes.CDLL(None).malloc_trim(0)  # returns freed memory to the system: its reuse would not be counted
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before_bytes, _ = _resident_bytes()
    result = call()
    _, highest_bytes = _resident_bytes()
    del result
    return {"resident_bytes": max(0, highest_bytes - before_bytes)}


def free_bytes(device: torch.device) -> int:
    """What can still be allocated: free memory, and memory that torch keeps for reuse."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    import psutil

    available = int(psutil.virtual_memory().available)
    within_group = _free_in_cgroup()
    return available if within_group is None else min(available, within_group)


# By version: the folder of memory groups, and the files of a group: its limit, its use, and of that the file cache.
_CGROUPS = {
    2: ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    1: ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def _free_in_cgroup(root: Path = Path("/")) -> int | None:
    """What the control groups of this process leave it, a container's for example; None where they set no limit."""
    free: list[int] = []
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            top, limit, used, cache = _CGROUPS[1 if controllers else 2]
            group = Path(path)
            # A container may see its own group as the top.
            for parent in (group, *group.parents):
                folder = root / top.lstrip("/") / str(parent).lstrip("/")
                with contextlib.suppress(OSError, ValueError):  # no such group here; a limit of `max`
                    most, taken = (int((folder / name).read_text()) for name in (limit, used))
                    free.append(max(0, most - taken + _cached(folder / "memory.stat", cache)))
    return min(free, default=None)


def _cached(file: Path, name: str) -> int:
    """The bytes of the file cache that are given up when memory is needed."""
    with contextlib.suppress(OSError, ValueError):
        return next((int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(f"{name} ")), 0)
    return 0


def _resident_bytes() -> tuple[int, int]:
    """The resident memory of this process now, and its peak."""
    sizes = {"VmRSS": 0, "VmHWM": 0}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in sizes:
                sizes[name] = int(rest.split()[0]) << 10
    return sizes["VmRSS"], sizes["VmHWM"]


def _total_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    import psutil

    return int(psutil.virtual_memory().total)


def _format(size: int) -> str:
    return f"{size / 2**30:.3g} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"
