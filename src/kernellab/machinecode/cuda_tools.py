"""Finds NVIDIA's assembler and disassemblers: in the triton package, which Linux installs always have, or a toolkit."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machine.tools import toolkit_program


def require(name: str) -> str:
    """The path of `ptxas`, `nvdisasm` or `cuobjdump`. Raises `UserError` if there is none."""
    paths = find(name)
    if not paths:
        raise UserError(
            f"{name} was found neither in the triton package nor in a CUDA toolkit: "
            "pip install triton, or put the toolkit's bin folder on the PATH"
        )
    return paths[0]


def find_assemblers(arch: int) -> list[str]:
    """Every `ptxas` on this machine: the one Triton uses for this architecture first, a toolkit's last."""
    names = ("ptxas-blackwell", "ptxas") if arch >= 100 else ("ptxas", "ptxas-blackwell")
    bundled = [path for name in names if (path := _find_in_triton(name)) is not None]
    return list(dict.fromkeys([*bundled, *find("ptxas")]))


@functools.cache
def find(name: str) -> tuple[str, ...]:
    """The paths of a tool, the preferred one first."""
    paths = [_find_in_triton(name), toolkit_program(name)]
    return tuple(dict.fromkeys(path for path in paths if path))


def _find_in_triton(name: str) -> str | None:
    # find_spec locates the package without importing it: importing triton takes a second.
    try:
        spec = importlib.util.find_spec("triton")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "backends" / "nvidia" / "bin" / name
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None
