"""Names in a script: those that its source already uses, and new ones that do not collide with them."""

from __future__ import annotations

import builtins
import keyword
import symtable
from collections.abc import Iterable


def global_names(source: str) -> set[str]:
    """The names that a module's source binds or looks up at module level: later code must not rebind them."""
    tables = [symtable.symtable(source, "<script>", "exec")]
    names = set(tables[0].get_identifiers())
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return names


class FreeNames:
    """Hands out names that are not taken: the preferred one, or with underscores appended."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *dir(builtins), *keyword.kwlist, "torch"}

    def new(self, preferred: str) -> str:
        while preferred in self._taken:
            preferred += "_"
        self._taken.add(preferred)
        return preferred
