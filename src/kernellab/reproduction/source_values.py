"""Values of options as source code."""

from __future__ import annotations

import builtins
import enum
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import torch


@dataclass(frozen=True)
class SourceValue:
    """A value as source code, the names of the op's file it uses, and the modules it needs besides."""

    text: str
    uses: frozenset[str] = field(default_factory=frozenset)
    modules: frozenset[str] = field(default_factory=frozenset)


def literal(value: object) -> str | None:
    """The source of a value that needs nothing but torch; None where there is none."""
    if value is None or isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if type(value) is float and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        parts = [literal(item) for item in value]
        if None in parts:
            return None
        inside = ", ".join(map(str, parts))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    return None


def source_of(value: object, file_globals: Mapping[str, object]) -> SourceValue | None:
    """A value as source beside the op's file, whose globals are given; None where it has no name there."""
    text = literal(value)
    if text is not None:
        return SourceValue(text)
    if isinstance(value, enum.Enum):
        enum_class = source_of(type(value), file_globals)
        if enum_class is None or value.name not in type(value).__members__:
            return None
        return SourceValue(f"{enum_class.text}.{value.name}", enum_class.uses, enum_class.modules)
    for name, candidate in file_globals.items():
        if candidate is value:
            return SourceValue(name, frozenset({name}))
    own_name = getattr(value, "__name__", None)
    if not isinstance(own_name, str):
        return None
    for name, candidate in file_globals.items():
        if isinstance(candidate, ModuleType) and getattr(candidate, own_name, None) is value:
            return SourceValue(f"{name}.{own_name}", frozenset({name}))
    if getattr(builtins, own_name, None) is value:
        return SourceValue(own_name)
    return _from_its_module(value, own_name, file_globals)


def _from_its_module(value: object, own_name: str, file_globals: Mapping[str, object]) -> SourceValue | None:
    """`module.Class.function`, where the value can be imported from another module than the op's file."""
    module, path = str(value.__module__), str(getattr(value, "__qualname__", own_name))
    if module not in sys.modules or sys.modules[module].__dict__ is file_globals or "<" in path:
        return None
    if module == "__main__" or module.startswith("klab_"):
        return None
    member: object = sys.modules[module]
    for part in path.split("."):
        member = getattr(member, part, None)
    return SourceValue(f"{module}.{path}", modules=frozenset({module})) if member is value else None
