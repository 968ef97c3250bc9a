"""Rules that say which implementation of an op serves, and the TOML files that hold them. No torch.

A table is a TOML file. It has rules for each op; the first that applies decides:

    [[gelu]]
    dtypes = ["bfloat16", "float16"]
    options = { approximate = "tanh" }
    columns_from = 1025            # the size of the last dim
    columns_up_to = 16384
    elements_from = 65536          # of the first input
    elements_up_to = 1048575
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

from kernellab.base.errors import UserError, nearest
from kernellab.machine import tools

SHIPPED = Path(__file__).parent / "tables"
PYTORCH = "torch"
HEAD = "tuned"  # the entry of a table that `klab tune` wrote which is no op
LIMITS = ("columns_from", "columns_up_to", "elements_from", "elements_up_to")
_KEYS = ("dtypes", "options", *LIMITS, "forward", "backward", "basis")


class Rule(NamedTuple):
    """Implementations of both passes, for tensors of certain sizes and certain values of the op's options."""

    forward: str
    backward: str
    columns_from: int = 0
    columns_up_to: int = sys.maxsize
    elements_from: int = 0
    elements_up_to: int = sys.maxsize
    options: tuple[tuple[str, object], ...] = ()

    @property
    def always_applies(self) -> bool:
        return self == Rule(self.forward, self.backward) and PYTORCH not in (self.forward, self.backward)

    def applies(self, columns: int, elements: int) -> bool:
        return (
            self.columns_from <= columns <= self.columns_up_to and self.elements_from <= elements <= self.elements_up_to
        )


Rules = tuple[Rule, ...]
Table = Mapping[tuple[str, str], Rules]  # by op and dtype


def first_rule(rules: Rules, columns: int, elements: int, options: Mapping[str, object]) -> Rule | None:
    """The rule that decides; None where PyTorch's own op serves."""
    for rule in rules:
        if rule.applies(columns, elements) and options.items() >= set(rule.options):
            return rule
    return None


def usable(rules: Rules) -> Rules:
    """The rules whose implementations can run here."""
    return tuple(rule for rule in rules if available(rule.forward) and available(rule.backward))


def shipped_name(architecture: str) -> str:
    """The shipped table of an architecture, `cpu` or `sm_90`: `cuda` for a GPU without a table of its own."""
    return architecture if (SHIPPED / f"{architecture}.toml").exists() else "cuda"


def shipped_table(architecture: str) -> Table:
    return read_table(SHIPPED / f"{shipped_name(architecture)}.toml")


def served_ops() -> list[str]:
    """The ops of `kernellab.functional`: those that tables choose implementations of."""
    return sorted({op for path in SHIPPED.glob("*.toml") for op, _ in read_table(path)})


def read_table(path: Path) -> Table:
    """The rules of a file by op and dtype."""
    try:
        return _parse(path, path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read the table of implementations {path}: {error}") from None


@functools.cache
def _parse(path: Path, text: str) -> Table:
    table: dict[tuple[str, str], Rules] = {}
    for op, entries in tomllib.loads(text).items():
        for dtype, rule in _read_rules(path, op, entries) if op != HEAD else ():
            table[op, dtype] = (*table.get((op, dtype), ()), rule)
    return table


def _read_rules(path: Path, op: str, entries: object) -> Iterator[tuple[str, Rule]]:
    for entry in entries if isinstance(entries, list) else [None]:
        if not isinstance(entry, dict) or not {"dtypes", "forward", "backward"} <= entry.keys():
            raise UserError(f"{path}: a rule of {op} is [[{op}]] with dtypes, forward and backward")
        for key in entry.keys() - set(_KEYS):
            raise UserError(f"{path}: a rule of {op} has no {key}: {nearest(key, _KEYS)}")
        limits = {key: entry[key] for key in LIMITS if key in entry}
        kinds = {"dtypes": list, "options": dict, "forward": str, "backward": str} | dict.fromkeys(LIMITS, int)
        for key, kind in kinds.items():
            if not isinstance(entry.get(key, kind()), kind):
                raise UserError(f"{path}: {key} of a rule of {op} cannot be {entry[key]!r}")
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
