"""PTX turned into a cubin by `ptxas`, and what it says on the way about registers that did not suffice."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machinecode import cuda_tools

_SECONDS = 300.0
_FUNCTION = re.compile(r"(?:Function properties for|Compiling entry function) '?([^\s']+)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Spills:
    """Bytes one thread stores to and loads from its stack because registers ran out, each instruction once."""

    stored_bytes: int
    loaded_bytes: int


@dataclass(frozen=True)
class Assembled:
    cubin: bytes
    log: str
    tool: str  # ptxas and its release


def assemble(ptx: str, target: str) -> Assembled:
    """A cubin for a target such as `sm_90a`, by the first assembler that knows it and the PTX's version."""
    number = re.match(r"sm_(\d+)[af]?$", target)
    if number is None:
        raise UserError(f"{target or 'nothing'!r} is no target: the PTX must say .target sm_90, or another")
    found = cuda_tools.assemblers(int(number[1]))
    if not found:
        cuda_tools.require("ptxas")
    complaints = []
    for tool in found:
        built = _try(tool, ptx, target)
        if isinstance(built, Assembled):
            return built
        complaints.append(f"{Path(tool).name}: {built}")
    raise UserError(f"no ptxas here assembles this for {target}", "\n".join(complaints))


def _try(tool: str, ptx: str, target: str) -> Assembled | str:
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [tool, "-v", "-lineinfo", f"-arch={target}", str(source), "-o", str(result)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
            )
        except subprocess.TimeoutExpired:
            return f"not done after {_SECONDS:.0f} s"
        log = done.stderr.replace(f"{source}, ", "").replace(str(source), "the PTX")
        if done.returncode != 0 or not result.exists():
            return log.strip()
        return Assembled(result.read_bytes(), log, f"{Path(tool).name} {release(tool)}".strip())


@functools.cache
def release(tool: str) -> str:
    """`12.8`, as the tool tells it."""
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"release (\d+\.\d+)", said)
    return found[1] if found else ""


def spills(log: str) -> dict[str, Spills]:
    """What `ptxas -v` says each function spills."""
    found: dict[str, Spills] = {}
    name = ""
    for line in log.splitlines():
        if function := _FUNCTION.search(line):
            name = function[1]
        elif numbers := _SPILLS.search(line):
            found[name] = Spills(int(numbers[2]), int(numbers[3]))
    return found
