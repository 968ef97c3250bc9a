"""Kernel names as people wrote them: what the linker knows as `_Z13softmax_blockIfLi4E…` is `softmax_block<…>`."""

from __future__ import annotations

import re


def short_name(symbol: str) -> str:
    """The function's own name out of a mangled one; a name that is not mangled, or in a namespace, stays as it is."""
    found = re.match(r"_Z(\d{1,4})", symbol)
    if found is None:
        return symbol
    length, rest = int(found[1]), symbol[found.end() :]
    if len(rest) < length:
        return symbol
    return rest[:length] + ("<…>" if rest[length : length + 1] == "I" else "")
