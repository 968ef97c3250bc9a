"""Which implementation of an op serves in models: readable tables, one for each architecture, and the user's own.

A table is a TOML file in `tables/`. It has rules for each op; the first that applies decides:

    [[gelu]]
    dtypes = ["bfloat16", "float16"]
    options = { approximate = "tanh" }
    columns_up_to = 16384          # the size of the last dim
    elements_from = 65536          # of the first input
    forward = "triton"             # the implementation of each pass, or "torch": PyTorch's own op serves
    backward = "cuda"              # or "torch": where a gradient is needed, PyTorch's own op serves both passes
    basis = "measured 2026-11-16 on an H200"

Options and limits may be left out. PyTorch's own op serves where no rule applies. Rules for implementations that cannot
run here, such as `cpp` without a C++ compiler, do not count. Nothing is measured here.
"""

from __future__ import annotations

import functools
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from kernellab.base.errors import UserError, nearest
from kernellab.base.paths import cache_path
from kernellab.machine import tools

SHIPPED = Path(__file__).parent / "tables"
PYTORCH = "torch"
_KEYS = ("dtypes", "options", "columns_up_to", "elements_from", "forward", "backward", "basis")
_OLDEST_GPU = (8, 0)  # the kernels are compiled and tested for GPUs from here on


class Rule(NamedTuple):
    """Implementations of both passes, for tensors of certain sizes and certain values of the op's options."""

    forward: str
    backward: str
    columns_up_to: int = sys.maxsize
    elements_from: int = 0
    options: tuple[tuple[str, object], ...] = ()

    @property
    def always_applies(self) -> bool:
        return self == Rule(self.forward, self.backward) and PYTORCH not in (self.forward, self.backward)

    def applies(self, columns: int, elements: int) -> bool:
        return columns <= self.columns_up_to and elements >= self.elements_from


Rules = tuple[Rule, ...]


def rules(op: str, dtype: torch.dtype, device: torch.device) -> Rules:
    """The rules for an op and a dtype on a device whose implementations can run here, the user's first."""
    name = table_name(device)
    if name is None:
        return ()
    files = (cache_path("tables", f"{name}.toml"), SHIPPED / f"{name}.toml")
    key = (op, str(dtype).removeprefix("torch."))
    found = [rule for path in files if path.exists() for rule in read_table(path).get(key, ())]
    return tuple(rule for rule in found if available(rule.forward) and available(rule.backward))


def table_name(device: torch.device) -> str | None:
    """The name of a device's table: `cpu`, `sm_90`, or `cuda` for a GPU without a table of its own; None where only
    PyTorch serves."""
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda" or not serves_gpus():
        return None
    capability = torch.cuda.get_device_capability(device)
    if capability < _OLDEST_GPU:
        return None
    name = "sm_{}{}".format(*capability)
    return name if (SHIPPED / f"{name}.toml").exists() else "cuda"


def serves_gpus() -> bool:
    """Whether there are kernels for GPUs here. For AMD's there are none, though PyTorch calls them CUDA devices."""
    return torch.version.hip is None and available("triton")


def read_table(path: Path) -> Mapping[tuple[str, str], Rules]:
    """The rules of a file by op and dtype."""
    try:
        return _parse(path, path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read the table of implementations {path}: {error}") from None


@functools.cache
def _parse(path: Path, text: str) -> Mapping[tuple[str, str], Rules]:
    table: dict[tuple[str, str], Rules] = {}
    for op, entries in tomllib.loads(text).items():
        for dtype, rule in _read_rules(path, op, entries):
            table[op, dtype] = (*table.get((op, dtype), ()), rule)
    return table


def _read_rules(path: Path, op: str, entries: object) -> Iterator[tuple[str, Rule]]:
    for entry in entries if isinstance(entries, list) else [None]:
        if not isinstance(entry, dict) or not {"dtypes", "forward", "backward"} <= entry.keys():
            raise UserError(f"{path}: a rule of {op} is [[{op}]] with dtypes, forward and backward")
        for key in entry.keys() - set(_KEYS):
            raise UserError(f"{path}: a rule of {op} has no {key}: {nearest(key, _KEYS)}")
        limits = {key: entry[key] for key in ("columns_up_to", "elements_from") if key in entry}
        rule = Rule(entry["forward"], entry["backward"], options=tuple(entry.get("options", {}).items()), **limits)
        yield from ((dtype, rule) for dtype in entry["dtypes"])


def available(impl: str) -> bool:
    """Whether what an implementation needs besides PyTorch is installed here."""
    needed = _NEEDED.get(impl.split("-")[0])
    return needed is None or needed()


_NEEDED: dict[str, Callable[[], bool]] = {
    "cpp": lambda: tools.cxx() is not None,
    "triton": lambda: tools.has_module("triton"),
    "cuda": lambda: tools.has_module("cuda.core"),
}
