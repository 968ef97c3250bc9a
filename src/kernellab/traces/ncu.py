"""Nsight Compute's pages as CSV: what was counted of each launch (raw), and what ncu's rules say of it (details).

A page may have lines of a log before it, numbers with commas, and rows that end early. Values come in base units:
nanoseconds, bytes. Says what is there; what it means is asked in analysis/counters.py.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.text import shown

Dims = tuple[int, int, int]
_KERNEL, _SECTION = "Kernel Name", "Section Name"
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}  # `nsecond` in older versions
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}  # ncu's kilobyte has 1000 bytes
_OF_A_LOG = 3  # a line of a log has a comma or two at most
_NAME, _WORDS = 2000, 4000  # characters
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Launch:
    """One kernel's launch. `name` is demangled; `numbers` are by ncu's names of metrics."""

    id: str
    name: str
    grid: Dims
    block: Dims
    device: str
    numbers: dict[str, float]

    @property
    def function(self) -> str:
        """The name without what it returns, takes and is a template of."""
        plain = _without(_without(self.name, "(", ")"), "<", ">").strip()
        return plain.split()[-1].rpartition("::")[2] if plain else self.name


@dataclass(frozen=True)
class Rule:
    """What one of ncu's rules says of a launch.

    `percent` is the time it estimates could be saved: of the whole launch where `scope` is global, of the use of one
    unit where it is local. `kind` is OPT for advice, WRN for a warning, INF for information.
    """

    id: str
    section: str
    name: str
    kind: str
    words: str
    scope: str
    percent: float | None


def is_details(text: str) -> bool:
    """Whether a page is the one with rules."""
    return _SECTION in next(_rows(text), [])


def launches(text: str) -> list[Launch]:
    """Of `ncu --csv --page raw`: a line of names, a line of units, then a line per launch. None on a page without."""
    rows = _rows(text)
    names = next(rows, [])
    if _SECTION in names:
        raise UserError("this is ncu's page of details, which says little of counters: export --page raw too")
    units = dict(zip(names, next(rows, []), strict=False))
    return [_launch(dict(zip(names, values, strict=False)), units) for values in rows]


def rules(text: str) -> list[Rule]:
    """Of `ncu --csv --page details`; versions before 2023 estimate nothing."""
    rows = _rows(text)
    names = next(rows, [])
    found = []
    for values in rows:
        row = dict(zip(names, values, strict=False))  # rows of metrics end before the columns of rules
        if not row.get("Rule Name"):
            continue
        percent = number(row.get("Estimated Speedup", ""))
        scope, kind = (shown(row.get(key, ""), _NAME) for key in ("Estimated Speedup Type", "Rule Type"))
        section, name = (shown(row.get(key, ""), _NAME) for key in (_SECTION, "Rule Name"))
        words = shown(row.get("Rule Description", ""), _WORDS)
        found.append(Rule(row.get("ID", ""), section, name, kind, words, scope, percent))
    return found


def renumbered(one: Any, mark: str) -> Any:
    """A launch or a rule of one report among several."""
    return replace(one, id=f"{mark}{one.id}") if mark else one


def number(text: str) -> float | None:
    """`1,980,000.5`; None for what is no number, or none that can be reckoned with."""
    text = text.strip()
    value = float(text.replace(",", "")) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def _rows(text: str) -> Iterator[list[str]]:
    """The table's rows, its header first: a log may stand before it and after it."""
    start = re.search(r'^"?ID"?,', text, re.MULTILINE)
    if start is None:
        return
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text[start.start() :]))):
            if number == 0 and _KERNEL not in row:
                return
            if len(row) > _OF_A_LOG and not row[0].startswith("=="):
                yield row
    except csv.Error as error:
        raise UserError(f"this is no CSV of ncu's: {error}") from None


def _launch(row: dict[str, str], units: dict[str, str]) -> Launch:
    numbers = {}
    for name, text in row.items():
        value = number(text)
        if value is not None and name:
            numbers[name] = value * _scale(units.get(name, ""))
    return Launch(
        id=row.get("ID", ""),
        name=shown(row.get(_KERNEL, ""), _NAME),
        grid=_dims(row, numbers, "grid"),
        block=_dims(row, numbers, "block"),
        device=shown(row.get("device__attribute_display_name", ""), _NAME),
        numbers=numbers,
    )


def _scale(unit: str) -> float:
    """To nanoseconds or bytes; `byte/block` is bytes. Rates and everything else stay as they are."""
    what, _, per = unit.partition("/")
    if per in ("s", "second"):
        return _BYTES.get(what, 1.0)
    return _BYTES.get(what) or _TIMES.get(what.replace("second", "s"), 1.0)


def _dims(row: dict[str, str], numbers: dict[str, float], what: str) -> Dims:
    """As `(128, 1, 1)` in a column of its own; versions before 2022.2 have metrics only."""
    written = re.findall(r"\d+", row.get(f"{what.capitalize()} Size", ""))
    if len(written) == 3:
        x, y, z = map(int, written)
    else:
        x, y, z = (int(numbers.get(f"launch__{what}_dim_{axis}", 0)) for axis in "xyz")
    return x, y, z


def _without(text: str, left: str, right: str) -> str:
    """Without what stands between brackets, nested ones too."""
    deep, kept = 0, []
    for c in text:
        deep += c == left
        if not deep:
            kept.append(c)
        deep -= c == right and deep > 0
    return "".join(kept)
