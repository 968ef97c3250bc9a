"""What a row knows beyond its columns: the names it goes by, and whether a file's value can be one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kernellab.base.text import shown

_LONGEST_TEXT = 4000  # characters
_INT64 = 2**63


def sound(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are what their names say, fit to be shown."""
    return {name: showable(value) for name, value in values.items() if _CHECKS[name](value)}


def showable(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value, _LONGEST_TEXT)
    if isinstance(value, dict):
        return {shown(key, _LONGEST_TEXT): showable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [showable(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < _INT64


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < _INT64


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    """A text for each input; for a list of tensors a list of texts."""
    return isinstance(value, list) and all(
        _is_text(inner) or (isinstance(inner, list) and all(map(_is_text, inner))) for inner in value
    )


def _is_three(value: Any) -> bool:
    return _is_counts(value) and len(value) == 3


def _is_shapes(value: Any) -> bool:
    """A shape for each input; for a list of tensors a list of shapes."""
    return isinstance(value, list) and all(
        _is_counts(shape) or (isinstance(shape, list) and all(map(_is_counts, shape))) for shape in value
    )


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "shapes": _is_shapes,
    "types": _is_texts,
    "values": _is_texts,
    "stack": _is_text,
    "domain": _is_text,
    "grid": _is_three,
    "block": _is_three,
    "registers": _is_count,
    "shared_bytes": _is_count,
    "blocks_per_sm": _is_number,
    "warps_per_sm": _is_number,
    "occupancy_percent": _is_number,
    "bytes": _is_count,
    "collective": _is_text,
    "elements": _is_count,
    "group_size": _is_count,
    "dtype": _is_text,
}
