"""NVIDIA's assembler and disassemblers: those in Triton's package, which is always there on Linux, else a toolkit's."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machine.tools import toolkit_program


def require(name: str) -> str:
    """The path of `nvdisasm` or `cuobjdump`."""
    found = find(name)
    if not found:
        raise UserError(
            f"{name} was found neither in the triton package nor in a CUDA toolkit: "
            "pip install triton, or put the toolkit's bin folder on the PATH"
        )
    return found[0]


def assemblers(arch: int) -> list[str]:
    """Every `ptxas` there is, the one Triton takes for this architecture first; a toolkit's comes last."""
    names = ("ptxas-blackwell", "ptxas") if arch >= 100 else ("ptxas", "ptxas-blackwell")
    own = [path for name in names if (path := _of_triton(name)) is not None]
    return list(dict.fromkeys([*own, *find("ptxas")]))


@functools.cache
def find(name: str) -> tuple[str, ...]:
    """Where a tool is, the best first."""
    paths = [_of_triton(name), toolkit_program(name)]
    return tuple(dict.fromkeys(path for path in paths if path))


def _of_triton(name: str) -> str | None:
    # find_spec locates the package without running it: importing triton takes a second.
    try:
        spec = importlib.util.find_spec("triton")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "backends" / "nvidia" / "bin" / name
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None
