"""Finds tools on this machine: compilers, headers, NVIDIA's command-line tools. Imports nothing slow."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")  # compute-sanitizer's tools, in the order to run them


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
    return toolkit_program("nvcc")


def compute_sanitizer() -> str | None:
    return toolkit_program("compute-sanitizer")


def compute_sanitizer_missing() -> str | None:
    """The reason why nothing can run under compute-sanitizer here; None if it is installed."""
    if compute_sanitizer() is not None:
        return None
    return (
        "compute-sanitizer was not found on the PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin: "
        "install the CUDA toolkit (from conda, cuda-sanitizer-api alone is enough)"
    )


def toolkit_program(name: str) -> str | None:
    """A program of the CUDA toolkit, from the PATH or the toolkit's folder."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which(name) or shutil.which(name, path=str(Path(home) / "bin"))


def python_headers() -> bool:
    return (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
