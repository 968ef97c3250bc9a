"""The optional details of a trace's rows: their names, their types, and the check of values that come from a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypedDict, cast

from kernellab.base.json import JsonValue
from kernellab.base.text import printable

_MAX_TEXT = 4000  # characters
INT64 = 2**63  # larger integers do not fit into a column


class RowDetails(TypedDict, total=False):
    """Operators have shapes, types, values and a stack; kernels a launch configuration; copies and fills bytes;
    communication a collective; NVTX ranges a domain."""

    shapes: list[list[int] | list[list[int]]]  # one shape per input; for a list of tensors, a list of shapes
    types: list[str | list[str]]
    values: list[str | list[str]]
    stack: str
    domain: str
    grid: list[int]
    block: list[int]
    registers: int
    shared_bytes: int
    blocks_per_sm: float
    warps_per_sm: float
    occupancy_percent: float
    bytes: int
    collective: str
    elements: int
    group_size: int
    dtype: str


def valid_details(values: Mapping[str, JsonValue]) -> RowDetails:
    """The values that have the type their name requires, safe to print; the others are dropped."""
    valid = {name: printable_value(value) for name, value in values.items() if _CHECKS[name](value)}
    return cast("RowDetails", valid)  # `_CHECKS` has checked each value


def printable_value(value: JsonValue) -> JsonValue:
    """The value with every text made safe to print, and numbers that JSON cannot hold replaced by None."""
    if isinstance(value, str):
        return printable(value, _MAX_TEXT)
    if isinstance(value, dict):
        return {printable(key, _MAX_TEXT): printable_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [printable_value(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and 0 <= value < INT64


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and 0 <= value < INT64


def _is_counts(value: JsonValue) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


def _is_texts(value: JsonValue) -> bool:
    """One text per input; for a list of tensors, a list of texts."""
    return isinstance(value, list) and all(
        _is_text(inner) or (isinstance(inner, list) and all(map(_is_text, inner))) for inner in value
    )


def _is_three_counts(value: JsonValue) -> bool:
    return isinstance(value, list) and len(value) == 3 and _is_counts(value)


def _is_shapes(value: JsonValue) -> bool:
    """One shape per input; for a list of tensors, a list of shapes."""
    return isinstance(value, list) and all(
        _is_counts(shape) or (isinstance(shape, list) and all(map(_is_counts, shape))) for shape in value
    )


_CHECKS: dict[str, Callable[[JsonValue], bool]] = {
    "shapes": _is_shapes,
    "types": _is_texts,
    "values": _is_texts,
    "stack": _is_text,
    "domain": _is_text,
    "grid": _is_three_counts,
    "block": _is_three_counts,
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
