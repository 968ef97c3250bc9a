"""C++ for the CPU: an `extern "C"` function, built by the system compiler in a fraction of a second.

Offered as `kl.cpp`. The function takes pointers, 64-bit integers and doubles, and returns nothing;
torch's headers are not involved, which is why the build is quick.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir
from kernellab.build.sources import building, fingerprint, locate
from kernellab.machine import tools

# Nobody reads errno or the floating-point exception flags here; keeping them turns each ?: into a branch.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")


# Hears of each call in place of the function while somebody is capturing.
interceptor: Callable[[CppFunction], None] | None = None


def function(file: str | Path, name: str, *, flags: Sequence[str] = ()) -> Callable[..., None]:
    """The `extern "C"` function `name` of a C++ file, built at the first call.

    Tensors are passed as pointers to their data, ints as int64_t, floats as double.
    """
    path = locate(file)
    return CppFunction(path, name, tuple(flags))


class CppFunction:
    def __init__(self, path: Path, name: str, flags: tuple[str, ...]) -> None:
        self.path, self.name, self.flags = path, name, flags

    @functools.cached_property
    def _entry(self) -> Any:
        library = _load(self.path, self.flags)
        try:
            entry = getattr(library, self.name)
        except AttributeError:
            raise UserError(f'{self.path.name} has no extern "C" function {self.name}') from None
        entry.restype = None
        return entry

    def __call__(self, *args: Any) -> None:
        if interceptor is not None:
            interceptor(self)
            return
        self._entry(*map(_to_c, args))


def _to_c(value: Any) -> Any:
    if isinstance(value, (bool, int)):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_void_p(value.data_ptr())


@functools.cache
def _load(path: Path, flags: tuple[str, ...]) -> ctypes.CDLL:
    with building(path.name):
        return ctypes.CDLL(str(build(path, flags)))


def build(path: Path, flags: tuple[str, ...] = ()) -> Path:
    """Compile to a shared library, or find it already compiled for this CPU and compiler."""
    cxx = _compiler()
    command = [cxx, *FLAGS, *flags]
    target = cache_dir("cpp") / f"{path.parent.name}-{fingerprint(path, *command, _cpu(), _version(cxx))}.so"
    if not target.exists():
        scratch = target.with_suffix(f".{os.getpid()}.so")
        done = subprocess.run([*command, str(path), "-o", str(scratch)], capture_output=True, text=True)
        if done.returncode != 0:
            raise UserError(f"{path.name} does not compile", done.stderr.strip())
        scratch.replace(target)
    return target


def assembly(path: Path, flags: tuple[str, ...] = ()) -> str:
    """The compiler's own assembly of a file, with the flags it is built with."""
    plain = [flag for flag in FLAGS if flag != "-shared"]
    command = [_compiler(), *plain, *flags, "-S", "-fverbose-asm", str(path), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise UserError(f"{path.name} does not compile", done.stderr.strip())
    return done.stdout


def _compiler() -> str:
    cxx = tools.cxx()
    if cxx is None:
        raise UserError("no C++ compiler: install one (Debian, Ubuntu: apt-get install g++) or set CXX")
    return cxx


@functools.cache
def _version(cxx: str) -> str:
    return subprocess.run([cxx, "--version"], capture_output=True, text=True).stdout


@functools.cache
def _cpu() -> str:
    """What `-march=native` depends on: a cache folder may be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))}))
