"""C++ for the CPU: an `extern "C"` function, built by the system's compiler in a fraction of a second.

Available as `kl.cpp`. The function takes pointers, 64-bit integers and doubles, and returns nothing. It does not
include torch's headers, which keeps the build quick.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.base.paths import cache_dir
from kernellab.build.sources import fingerprint, locate, notify_observers
from kernellab.machine import tools

if TYPE_CHECKING:
    import torch

    Argument = torch.Tensor | bool | int | float

# The functions use neither errno nor floating-point exception flags; keeping them would turn each ?: into a branch.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")

# Called instead of the function while launches are captured.
interceptor: Callable[[CppFunction], object] | None = None


def function(file: str | Path, name: str, *, flags: Sequence[str] = ()) -> CppFunction:
    """The `extern "C"` function `name` of a C++ file, built at the first call.

    Tensors are passed as pointers to their data, ints as int64_t, floats as double.
    """
    path = locate(file)
    return CppFunction(path, name, tuple(flags))


class CppFunction:
    def __init__(self, path: Path, name: str, flags: tuple[str, ...]) -> None:
        self.path, self.name, self.flags = path, name, flags

    @functools.cached_property
    def _entry(self) -> AnyFunction:
        library = _load(self.path, self.flags)
        try:
            entry = getattr(library, self.name)
        except AttributeError:
            raise UserError(f'{self.path.name} has no extern "C" function {self.name}') from None
        entry.restype = None
        return entry  # type: ignore[no-any-return]

    def __call__(self, *args: Argument) -> None:
        if interceptor is not None:
            interceptor(self)
            return
        self._entry(*map(_to_c, args))


def _to_c(value: Argument) -> ctypes.c_int64 | ctypes.c_double | ctypes.c_void_p:
    if isinstance(value, (bool, int)):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_void_p(value.data_ptr())


@functools.cache
def _load(path: Path, flags: tuple[str, ...]) -> ctypes.CDLL:
    with notify_observers(path.name):
        return ctypes.CDLL(str(build(path, flags)))


def build(path: Path, flags: tuple[str, ...] = ()) -> Path:
    """The shared library: compiled, or from the cache if this compiler built it for this CPU before."""
    cxx = _require_compiler()
    command = [cxx, *FLAGS, *flags]
    target = cache_dir("cpp") / f"{path.parent.name}-{fingerprint(path, *command, _cpu_model(), _version(cxx))}.so"
    if not target.exists():
        scratch = target.with_suffix(f".{os.getpid()}.so")
        _run_compiler(path, [*command, str(path), "-o", str(scratch)])
        scratch.replace(target)
    return target


def assembly(path: Path, flags: tuple[str, ...] = ()) -> str:
    """The compiler's assembly of a file, with the flags of the build."""
    compile_flags = [flag for flag in FLAGS if flag != "-shared"]
    return _run_compiler(
        path, [_require_compiler(), *compile_flags, *flags, "-S", "-fverbose-asm", str(path), "-o", "-"]
    )


def _run_compiler(path: Path, command: Sequence[str]) -> str:
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode != 0:
        raise UserError(f"{path.name} does not compile", process.stderr.strip())
    return process.stdout


def _require_compiler() -> str:
    cxx = tools.cxx()
    if cxx is None:
        raise UserError("no C++ compiler: install one (Debian, Ubuntu: apt-get install g++) or set CXX")
    return cxx


@functools.cache
def _version(cxx: str) -> str:
    return subprocess.run([cxx, "--version"], capture_output=True, text=True).stdout


@functools.cache
def _cpu_model() -> str:
    """The lines that `-march=native` depends on: machines with different CPUs may share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))}))
