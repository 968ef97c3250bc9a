"""Kernel names as people wrote them: what the linker knows as `_Z13softmax_blockIfLi4E…` is `softmax_block<…>`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RESERVED = ("__cudart_", "__internal_", "__nv_", "__cuda_")
_NAMESPACES = ("cuda", "thrust", "cub", "cooperative_groups")  # each mangled after its length


def short_name(symbol: str) -> str:
    """The function's own name out of a mangled one; a name that is not mangled, or in a namespace, stays as it is."""
    found = re.match(r"_Z(\d{1,4})", symbol)
    if found is None:
        return symbol
    length, rest = int(found[1]), symbol[found.end() :]
    if len(rest) < length:
        return symbol
    return rest[:length] + ("<…>" if rest[length : length + 1] == "I" else "")


def of_library(symbol: str) -> bool:
    """Whether a name is of CUDA's own headers, which bring tables and constants with them."""
    return symbol.startswith(_RESERVED) or any(f"{len(space)}{space}" in symbol for space in _NAMESPACES)


def meant(name: str, symbols: Iterable[str]) -> list[str]:
    """The symbols a person means: the one of that name, else those of that plain name, else those it is a part of."""
    known = list(dict.fromkeys(symbols))
    plain = name.partition("<")[0]
    for fits in (
        lambda symbol: symbol == name,
        lambda symbol: short_name(symbol).partition("<")[0] == name,
        lambda symbol: name in symbol,
        lambda symbol: plain != name and short_name(symbol).partition("<")[0] == plain and symbol.startswith("_Z"),
    ):
        found = [symbol for symbol in known if fits(symbol)]
        if found:
            return found
    return []
