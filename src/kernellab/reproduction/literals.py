"""Names and values as a script writes them: an option's value as source, and names that are nobody else's."""

from __future__ import annotations

import builtins
import enum
import keyword
import math
import symtable
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch


@dataclass
class Spelled:
    """A value as source, the names of the op's file it uses, and the modules it needs besides."""

    text: str
    uses: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)


def literal(value: Any) -> str | None:
    """A value that needs nothing but torch; None where it has no such form."""
    if value is None or isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if type(value) is float and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if type(value) in (list, tuple):
        parts = [literal(one) for one in value]
        if None in parts:
            return None
        inside = ", ".join(str(part) for part in parts)
        return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
    return None


def spell(value: Any, names: Mapping[str, Any]) -> Spelled | None:
    """A value as source beside the op's file, whose globals are `names`; None for what cannot be named there."""
    text = literal(value)
    if text is not None:
        return Spelled(text)
    if isinstance(value, enum.Enum):
        kind = spell(type(value), names)
        known = value.name in type(value).__members__
        return Spelled(f"{kind.text}.{value.name}", kind.uses, kind.modules) if kind is not None and known else None
    for name, found in names.items():
        if found is value:
            return Spelled(name, {name})
    own = getattr(value, "__name__", None)
    if not isinstance(own, str):
        return None
    for name, found in names.items():
        if isinstance(found, ModuleType) and getattr(found, own, None) is value:
            return Spelled(f"{name}.{own}", {name})
    if getattr(builtins, own, None) is value:
        return Spelled(own)
    module, path = str(value.__module__), str(getattr(value, "__qualname__", own))
    if module in sys.modules and sys.modules[module].__dict__ is not names and "<" not in path:
        found = sys.modules[module]
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is value and module != "__main__" and not module.startswith("klab_"):
            return Spelled(f"{module}.{path}", set(), {module})
    return None


def looked_up(text: str) -> set[str]:
    """The names that source binds at its top or looks up there: what follows it must leave them alone."""
    tables = [symtable.symtable(text, "<script>", "exec")]
    found = set(tables[0].get_identifiers())
    while tables:
        table = tables.pop()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return found


class Names:
    """Hands out names that are free: as wanted, or with a line behind."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *dir(builtins), *keyword.kwlist, "torch"}

    def new(self, wanted: str) -> str:
        while wanted in self._taken:
            wanted += "_"
        self._taken.add(wanted)
        return wanted
