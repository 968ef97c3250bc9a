"""The tables that `klab tune` wrote on this machine: where they are, and whether they can be used. No torch.

There is one for each architecture, `tuned/sm_90.toml` or `tuned/cpu.toml` in the cache. Its entry `[tuned]` says what
it was made for. A table for other kernels, in another format or for another CPU, is not used.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_path
from kernellab.base.version import VERSION
from kernellab.library.rules import HEAD, Table, read_table
from kernellab.machine.environment import cpu_name

FORMAT = 1
SWITCH = "KERNELLAB_TUNED"  # 0: tuned tables are ignored
REMEDY = "klab tune measures again, klab tune --reset removes it"


def tuned_path(architecture: str) -> Path:
    return cache_path("tuned", f"{architecture}.toml")


def is_switched_off() -> bool:
    return os.environ.get(SWITCH) == "0"


@dataclass(frozen=True)
class TunedTable:
    """A tuned table as it was found. `problem` says why it is not used; then it has no rules."""

    path: Path
    device: str
    rules: Table
    problem: str = ""


def find_tuned(architecture: str) -> TunedTable | None:
    """The tuned table of an architecture, if there is one."""
    path = tuned_path(architecture)
    return read_tuned(path, architecture) if path.exists() else None


def read_tuned(path: Path, architecture: str) -> TunedTable:
    """A file that should be a tuned table. What is wrong with it is its problem, not an error."""
    try:
        table = read_table(path)
        head = tomllib.loads(path.read_text()).get(HEAD)
    except UserError as error:
        return TunedTable(path, "", {}, error.message.replace(f" {path}", "").removeprefix(f"{path}: "))
    device = str(head.get("device", "")) if isinstance(head, dict) else ""
    problem = _why_unfit(head, architecture)
    if problem:
        return TunedTable(path, device, {}, problem)
    return TunedTable(path, device, table)


def _why_unfit(head: object, architecture: str) -> str:
    if not isinstance(head, dict):
        return f"it has no [{HEAD}] that says what it was made for"
    if head.get("format") != FORMAT:
        return f"it has format {head.get('format')}, and this kernellab reads format {FORMAT}"
    if head.get("kernellab") != VERSION:
        return f"it was made by kernellab {head.get('kernellab')}, and this is {VERSION}: the kernels may have changed"
    if head.get("architecture") != architecture:
        return f"it was made for {head.get('architecture')}, and this is {architecture}"
    if architecture == "cpu" and head.get("device") != cpu_name():
        return f"it was made for another CPU, {head.get('device')}"
    return ""
