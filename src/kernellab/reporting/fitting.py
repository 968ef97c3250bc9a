"""Text made to fit a narrow terminal: sentences wrapped, a table's widest columns made narrower. Pipes get it all."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernellab.reporting.terminal import console

_BETWEEN = 2  # spaces between columns
_NARROWEST = 12  # a figure with its unit is never cut


def _columns() -> int | None:
    return console().width if sys.stdout.isatty() else None


@dataclass(frozen=True)
class Fit:
    """`name`: the most characters of a name. `columns`: the terminal's; None where there is none."""

    name: int
    columns: int | None = field(default_factory=_columns)

    def sentences(self, said: Iterable[str]) -> list[str]:
        """A line's own indent is kept, what follows of it is indented by two more."""
        if self.columns is None:
            return list(said)
        found: list[str] = []
        for line in said:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            wide = max(self.columns, 2 * len(indent))
            found += textwrap.wrap(line, wide, subsequent_indent=indent, break_on_hyphens=False) or [line]
        return found

    def widths(self, wanted: Sequence[int]) -> list[int]:
        """Of a table's columns: the widest gives way first."""
        found = list(wanted)
        if self.columns is None or not found:
            return found
        over = sum(found) + _BETWEEN * (len(found) - 1) - self.columns
        while over > 0 and max(found) > _NARROWEST:
            found[found.index(max(found))] -= 1
            over -= 1
        return found
