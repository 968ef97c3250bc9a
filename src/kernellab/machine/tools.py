"""Tools found on this machine without importing anything heavy."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path


@functools.cache
def has_gpu() -> bool:
    """Whether an NVIDIA driver is present: its device node, or its library on WSL. Cheap, for listings."""
    return Path("/dev/nvidiactl").exists() or Path("/usr/lib/wsl/lib/libcuda.so.1").exists()


@functools.cache
def has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def cxx() -> str | None:
    """The C++ compiler that `$CXX` names, else the system's."""
    return shutil.which(os.environ.get("CXX", "")) or shutil.which("c++") or shutil.which("g++")


def nvcc() -> str | None:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which("nvcc") or shutil.which("nvcc", path=str(Path(home) / "bin"))


def python_headers() -> bool:
    return (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
