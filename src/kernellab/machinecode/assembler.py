"""Turns PTX into a cubin with `ptxas`, and reads from its log how many bytes each kernel spills."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machinecode import cuda_tools

_TIMEOUT_S = 300.0
_FUNCTION = re.compile(r"(?:Function properties for|Compiling entry function) '?([^\s']+)")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Spills:
    """Bytes one thread stores to and loads from its stack because registers ran out. Each instruction counts once."""

    stored_bytes: int
    loaded_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.stored_bytes + self.loaded_bytes


@dataclass(frozen=True)
class AssembledCode:
    cubin: bytes
    log: str
    tool: str  # ptxas and its release


def assemble(ptx: str, target: str) -> AssembledCode:
    """Assemble for a target such as `sm_90a`, with the first `ptxas` that supports the target and the PTX version."""
    number = re.match(r"sm_(\d+)[af]?$", target)
    if number is None:
        problem = f"{target!r} is not a GPU target" if target else "the PTX names no GPU target"
        raise UserError(f"{problem}: it must contain a line such as .target sm_90")
    assemblers = cuda_tools.find_assemblers(int(number[1]))
    if not assemblers:
        cuda_tools.require("ptxas")
    errors = []
    for tool in assemblers:
        outcome = _run_ptxas(tool, ptx, target)
        if isinstance(outcome, AssembledCode):
            return outcome
        errors.append(f"{Path(tool).name}: {outcome}")
    raise UserError(f"no ptxas on this machine can assemble this PTX for {target}", "\n".join(errors))


def _run_ptxas(tool: str, ptx: str, target: str) -> AssembledCode | str:
    """The assembled code, or the error as text."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [tool, "-v", "-lineinfo", f"-arch={target}", str(source), "-o", str(result)]
        try:
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, errors="replace"
            )
        except subprocess.TimeoutExpired:
            return f"did not finish within {_TIMEOUT_S:.0f} s"
        log = process.stderr.replace(f"{source}, ", "").replace(str(source), "the PTX")
        if process.returncode != 0 or not result.exists():
            return log.strip()
        return AssembledCode(result.read_bytes(), log, f"{Path(tool).name} {read_release(tool)}".strip())


@functools.cache
def read_release(tool: str) -> str:
    """The tool's release, such as `12.8`; empty if `--version` does not print one."""
    output = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    match = re.search(r"release (\d+\.\d+)", output)
    return match[1] if match else ""


def parse_spills(log: str) -> dict[str, Spills]:
    """The spills of each function, from the output of `ptxas -v`."""
    spills: dict[str, Spills] = {}
    name = ""
    for line in log.splitlines():
        if function := _FUNCTION.search(line):
            name = function[1]
        elif numbers := _SPILLS.search(line):
            spills[name] = Spills(int(numbers[2]), int(numbers[3]))
    return spills
