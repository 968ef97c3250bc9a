"""Kernel names as their authors wrote them: the linker's `_Z13softmax_blockIfLi4E…` becomes `softmax_block<…>`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RESERVED = ("__cudart_", "__internal_", "__nv_", "__cuda_")
_NAMESPACES = ("cuda", "thrust", "cub", "cooperative_groups")  # in a mangled name, the length precedes each


def short_name(symbol: str) -> str:
    """The function's name from a mangled symbol. A symbol that is not mangled, or in a namespace, is returned as is."""
    match = re.match(r"_Z(\d{1,4})", symbol)
    if match is None:
        return symbol
    length, rest = int(match[1]), symbol[match.end() :]
    if len(rest) < length:
        return symbol
    return rest[:length] + ("<…>" if rest[length : length + 1] == "I" else "")


def is_from_cuda_headers(symbol: str) -> bool:
    """Whether a symbol comes from CUDA's own headers, which add tables and constants to a module."""
    return symbol.startswith(_RESERVED) or any(f"{len(space)}{space}" in symbol for space in _NAMESPACES)


def match_symbols(name: str, symbols: Iterable[str]) -> list[str]:
    """The symbols that a user means by `name`. The first of these rules that matches any symbol applies:

    the symbol equals the name; its short name equals the name; it contains the name; it is an instance of the template
    that the name gives with arguments.
    """
    candidates = list(dict.fromkeys(symbols))
    plain = name.partition("<")[0]
    for rule in (
        lambda symbol: symbol == name,
        lambda symbol: short_name(symbol).partition("<")[0] == name,
        lambda symbol: name in symbol,
        lambda symbol: plain != name and short_name(symbol).partition("<")[0] == plain and symbol.startswith("_Z"),
    ):
        matches = [symbol for symbol in candidates if rule(symbol)]
        if matches:
            return matches
    return []
