"""Builds the C++ extension with the system's compiler and torch's headers, once for each version of torch and Python.

The build takes about half a minute and runs in the background, at low priority. It goes on when the program ends, so
that the next one finds it. Processes do not build the same extension twice. Importing this imports no torch.
"""

from __future__ import annotations

import fcntl
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernellab.base.paths import cache_dir, cache_path
from kernellab.build.sources import fingerprint
from kernellab.machine import tools

SWITCH = "KERNELLAB_LAUNCHER"  # 0: calls are not repeated, and nothing is built
NAME = "kernellab_launcher"
SOURCE = Path(__file__).parent / "module.cpp"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch_python")
# The library appears as a whole. What the compiler says is kept where it fails, and then it is not tried again.
_SCRIPT = 'nice -n 10 "$@" >"$LOG" 2>&1 && mv -f "$SCRATCH" "$TARGET" || mv -f "$LOG" "$FAILED"'


def is_switched_off() -> bool:
    return os.environ.get(SWITCH) == "0"


def why_not_possible() -> str:
    """What the build lacks here; empty if it has everything."""
    if tools.cxx() is None:
        return "there is no C++ compiler"
    return "" if tools.python_headers() else "Python's headers are missing"


@dataclass(frozen=True)
class Target:
    """The files of an extension in the cache."""

    library: Path

    @property
    def failed(self) -> Path:
        """What the compiler said when it failed."""
        return self.library.with_suffix(".failed")


def target() -> Target:
    import torch

    stem = fingerprint(SOURCE, *_FLAGS, torch.__version__, sys.implementation.cache_tag or "", sysconfig.get_platform())
    return Target(cache_path("launcher", f"{stem}.so"))


def build(goal: Target) -> None:
    """Compile the extension, unless it is there or has failed before. Waits for a process that builds it already."""
    folder = cache_dir("launcher")
    with (folder / f"{goal.library.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if goal.library.exists() or goal.failed.exists() or why_not_possible():
            return
        scratch, log = (goal.library.with_suffix(f".{os.getpid()}.{end}") for end in ("so", "log"))
        paths = {"SCRATCH": scratch, "TARGET": goal.library, "LOG": log, "FAILED": goal.failed}
        subprocess.run(
            ["sh", "-c", _SCRIPT, "sh", *_command(scratch)],
            env={**os.environ, **{name: str(path) for name, path in paths.items()}},
            pass_fds=[lock.fileno()],  # the compiler holds the lock, also when this process has ended
            stdin=subprocess.DEVNULL,
        )
        log.unlink(missing_ok=True)


def _command(output: Path) -> list[str]:
    import torch

    folder = Path(torch.__file__).parent
    includes = [folder / "include", folder / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    return [
        tools.cxx() or "c++",
        *_FLAGS,
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(word for path in includes for word in ("-isystem", str(path))),
        str(SOURCE),
        *("-o", str(output)),
        f"-L{folder / 'lib'}",
        *_LIBRARIES,
    ]


def load(goal: Target) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(goal.library))
    spec = importlib.util.spec_from_file_location(NAME, goal.library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
