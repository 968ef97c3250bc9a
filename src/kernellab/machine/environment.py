"""The environment that every record states: versions, GPUs, driver, CPU, commit. Read without importing torch."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from kernellab.base.version import VERSION
from kernellab.machine.description import CpuJson, EnvironmentJson, GpuBoard

_PACKAGES = ("kernellab", "torch", "triton", "numpy", "cuda-core", "nvidia-cuda-nvrtc")
_BRANCH_VARIABLES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")


class Commit(NamedTuple):
    """What is checked out in the working directory."""

    name: str | None = None  # marked if there are uncommitted changes
    time: str | None = None
    branch: str | None = None


def environment() -> EnvironmentJson:
    head = commit()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "packages": {name: version(name) for name in _PACKAGES},
        "cpu": cpu(),
        "gpus": gpus(),
        "commit": head.name,
        "committed": head.time,
        "branch": head.branch,
    }


def version(package: str) -> str | None:
    if package == "kernellab":
        return VERSION
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu() -> CpuJson:
    import psutil

    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return {"name": cpu_name(), "cores": cores, "memory_bytes": psutil.virtual_memory().total}


def cpu_name() -> str:
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open() as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def gpus() -> list[GpuBoard]:
    """Every NVIDIA GPU that the driver lists, through NVML: no CUDA context is created."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver or no package: there is no GPU to report
        return []
    boards: list[GpuBoard] = []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            boards.append(
                {
                    "name": _text(pynvml.nvmlDeviceGetName(handle)),
                    "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
                    "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                    "driver": driver,
                    "max_sm_mhz": int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
                    "max_memory_mhz": int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
                }
            )
    except Exception:  # a driver that answers only some questions: keep the GPUs read so far
        pass
    finally:
        with contextlib.suppress(Exception):
            pynvml.nvmlShutdown()
    return boards


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def commit() -> Commit:
    """The commit of the working directory; empty outside a repository."""
    head = _git("show", "-s", "--format=%H %cI", "HEAD").split()
    if len(head) != 2:
        return Commit()
    changes = "+changes" if _git("status", "--porcelain", "-uno") else ""
    return Commit(head[0] + changes, head[1], _branch())


def _branch() -> str | None:
    """The branch that is checked out. CI systems check out a commit, and name the branch in a variable."""
    names = (_git("symbolic-ref", "-q", "--short", "HEAD"), *(os.environ.get(name) for name in _BRANCH_VARIABLES))
    return next((name for name in names if name), None)


def _git(*words: str) -> str:
    """What git prints; nothing where it fails or is missing."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, errors="replace", timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def device_identity(env: EnvironmentJson, uuid: str) -> str:
    """One string per device and what decides its speed: the key of cached ceilings and of resumed runs.

    `uuid` is `cpu` or the UUID of a GPU. The index of a GPU would depend on CUDA_VISIBLE_DEVICES.
    """
    return machine_class(env, uuid, serial=f" {uuid}")


def machine_class(env: EnvironmentJson, uuid: str, *, serial: str = "") -> str:
    """The class of machines whose times may be compared: the name of the device, and its driver or threads."""
    if uuid != "cpu":
        names = ((gpu["name"], gpu["driver"]) for gpu in env["gpus"] if gpu["uuid"] == uuid)
        name, driver = next(names, ("unknown GPU", "unknown"))
        return f"{name}{serial} driver {driver}"
    threads = os.environ.get("OMP_NUM_THREADS") or env["cpu"]["cores"]
    return f"{env['cpu']['name']} {threads} threads"


def run_key(env: EnvironmentJson, identity: str) -> str:
    """A hash of what a resumed run must have in common with the run that it continues."""
    text = f"{env['packages']} {sys.version_info[:2]} {identity}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
