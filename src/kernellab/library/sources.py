"""The tables that could hold on an architecture, in the order of their rank, and which of them are used. No torch."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_path
from kernellab.library.rules import SHIPPED, Table, read_table, shipped_name
from kernellab.library.tuned import SWITCH, find_tuned, is_switched_off

_RULE = re.compile(r"^\[\[(\w+)\]\]\n(?:(?!\[\[|#).*\n?)*", re.MULTILINE)


@dataclass(frozen=True)
class TableSource:
    """A table that exists. `problem` says why it is not used."""

    title: str
    path: Path
    rules: Table
    problem: str = ""

    @property
    def is_used(self) -> bool:
        return not self.problem

    def text_of(self, ops: Collection[str]) -> str:
        """The file; where ops are named, only their rules."""
        text = self.path.read_text()
        if not ops:
            return text
        rules = [match[0].strip() for match in _RULE.finditer(text) if match[1] in ops]
        return "\n\n".join(rules) or f"# no rules for {', '.join(ops)}"


def table_sources(architecture: str) -> list[TableSource]:
    """The user's own table, the tuned one and the shipped one; the last always exists."""
    name = f"{shipped_name(architecture)}.toml"
    sources = []
    own = cache_path("tables", name)
    if own.exists():
        sources.append(_read_own(own))
    tuned = find_tuned(architecture)
    if tuned is not None:
        problem = f"{SWITCH} is 0" if is_switched_off() else tuned.problem
        sources.append(TableSource("tuned", tuned.path, tuned.rules, problem))
    return [*sources, TableSource("shipped", SHIPPED / name, read_table(SHIPPED / name))]


def _read_own(path: Path) -> TableSource:
    try:
        return TableSource("your own", path, read_table(path))
    except UserError as error:
        return TableSource("your own", path, {}, error.message)
