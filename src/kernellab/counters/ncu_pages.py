"""Reads the CSV pages of Nsight Compute: the counters of each launch (page raw), and ncu's advice (page details).

A page may have log lines before it, numbers with thousands separators, and rows that end early. Values are converted to
base units: nanoseconds and bytes. What the counters mean is computed in `tables`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from kernellab.base.errors import UserError
from kernellab.base.text import printable

Dims = tuple[int, int, int]
_KERNEL, _SECTION = "Kernel Name", "Section Name"
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}  # older versions write `nsecond`
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}  # ncu's kilobyte has 1000 bytes
_MAX_LOG_FIELDS = 3  # a log line contains a comma or two at most
_MAX_NAME, _MAX_WORDS = 2000, 4000  # characters
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. `name` is demangled; the keys of `numbers` are ncu's names of metrics."""

    id: str
    name: str
    grid: Dims
    block: Dims
    device: str
    numbers: dict[str, float]

    @property
    def function(self) -> str:
        """The name without return type, parameters and template arguments."""
        plain = _without_brackets(_without_brackets(self.name, "(", ")"), "<", ">").strip()
        return plain.split()[-1].rpartition("::")[2] if plain else self.name


@dataclass(frozen=True)
class Rule:
    """What one of ncu's rules says about a launch.

    `percent` is the time ncu estimates could be saved: of the whole launch if `scope` is global, of one unit's use if
    it is local. `kind` is OPT for advice, WRN for a warning, INF for information.
    """

    id: str
    section: str
    name: str
    kind: str
    words: str
    scope: str
    percent: float | None


_Entry = TypeVar("_Entry", Launch, Rule)


def is_details(text: str) -> bool:
    """Whether a page is the one with rules."""
    return _SECTION in next(_rows(text), [])


def launches(text: str) -> list[Launch]:
    """The launches of `ncu --csv --page raw`: a line of names, a line of units, then one line per launch."""
    rows = _rows(text)
    names = next(rows, [])
    if _SECTION in names:
        raise UserError("this is ncu's page `details`, which has few counters: export --page raw too")
    units = dict(zip(names, next(rows, []), strict=False))
    return [_launch(dict(zip(names, values, strict=False)), units) for values in rows]


def rules(text: str) -> list[Rule]:
    """The rules of `ncu --csv --page details`. Versions before 2023 give no estimates."""
    rows = _rows(text)
    names = next(rows, [])
    parsed = []
    for values in rows:
        row = dict(zip(names, values, strict=False))  # rows of metrics end before the columns of rules
        if not row.get("Rule Name"):
            continue
        percent = parse_number(row.get("Estimated Speedup", ""))
        scope, kind = (printable(row.get(key, ""), _MAX_NAME) for key in ("Estimated Speedup Type", "Rule Type"))
        section, name = (printable(row.get(key, ""), _MAX_NAME) for key in (_SECTION, "Rule Name"))
        words = printable(row.get("Rule Description", ""), _MAX_WORDS)
        parsed.append(Rule(row.get("ID", ""), section, name, kind, words, scope, percent))
    return parsed


def prefix_id(entry: _Entry, prefix: str) -> _Entry:
    """A launch or rule of one report among several: the prefix makes its id unique."""
    return replace(entry, id=f"{prefix}{entry.id}") if prefix else entry


def parse_number(text: str) -> float | None:
    """The number in a text such as `1,980,000.5`; None if it is not a finite number."""
    text = text.strip()
    value = float(text.replace(",", "")) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def _rows(text: str) -> Iterator[list[str]]:
    """The rows of the table, header first, without the log lines before and after it."""
    start = re.search(r'^"?ID"?,', text, re.MULTILINE)
    if start is None:
        return
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text[start.start() :]))):
            if number == 0 and _KERNEL not in row:
                return
            if len(row) > _MAX_LOG_FIELDS and not row[0].startswith("=="):
                yield row
    except csv.Error as error:
        raise UserError(f"this is not a CSV page of ncu: {error}") from None


def _launch(row: dict[str, str], units: dict[str, str]) -> Launch:
    numbers = {}
    for name, text in row.items():
        value = parse_number(text)
        if value is not None and name:
            numbers[name] = value * _scale(units.get(name, ""))
    return Launch(
        id=row.get("ID", ""),
        name=printable(row.get(_KERNEL, ""), _MAX_NAME),
        grid=_dims(row, numbers, "grid"),
        block=_dims(row, numbers, "block"),
        device=printable(row.get("device__attribute_display_name", ""), _MAX_NAME),
        numbers=numbers,
    )


def _scale(unit: str) -> float:
    """The factor to nanoseconds or bytes (`byte/block` counts as bytes); 1 for every other unit."""
    quantity, _, per = unit.partition("/")
    if per in ("s", "second"):
        return _BYTES.get(quantity, 1.0)
    return _BYTES.get(quantity) or _TIMES.get(quantity.replace("second", "s"), 1.0)


def _dims(row: dict[str, str], numbers: dict[str, float], which: str) -> Dims:
    """`(128, 1, 1)` from its own column; versions before 2022.2 have only metrics."""
    sizes = re.findall(r"\d+", row.get(f"{which.capitalize()} Size", ""))
    if len(sizes) == 3:
        x, y, z = map(int, sizes)
    else:
        x, y, z = (int(numbers.get(f"launch__{which}_dim_{axis}", 0)) for axis in "xyz")
    return x, y, z


def _without_brackets(text: str, left: str, right: str) -> str:
    """The text without everything between brackets, nested ones included."""
    depth, kept = 0, []
    for character in text:
        depth += character == left
        if not depth:
            kept.append(character)
        depth -= character == right and depth > 0
    return "".join(kept)
