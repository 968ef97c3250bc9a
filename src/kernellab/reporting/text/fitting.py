"""Text made to fit a narrow terminal: sentences wrapped, a table's widest columns made narrower, columns left out where
that is not enough. Pipes get it all."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernellab.base.text import shown
from kernellab.reporting.text.console import console

_BETWEEN = 2  # spaces between columns
_NARROWEST, _NARROWEST_NAME = 12, 20  # what still tells something; figures are never cut


def _columns() -> int | None:
    return console().width if sys.stdout.isatty() else None


@dataclass(frozen=True)
class Fit:
    """`name`: the most characters of a name. `columns`: the terminal's; None where there is none."""

    name: int = 80
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

    def table(
        self, head: Sequence[str], body: Sequence[Sequence[str]], *, of: int = 0, spare: Sequence[int] = ()
    ) -> list[str]:
        """The first column to the left, the others to the right. Too many columns give way from the right on, unless
        `spare` names those that come first. Below, what is not shown: columns, and how many rows `of` all there are."""
        cells = [[shown(cell, self.name) for cell in row] for row in body]
        wanted = [max(len(row[at]) for row in (head, *cells)) for at in range(len(head))]
        words = [any(row[at][:1].isalpha() for row in cells) for at in range(len(head))]
        least = [_NARROWEST if said else size for said, size in zip(words, wanted, strict=True)]
        least[0] = _NARROWEST_NAME
        giving_way = [*spare, *(at for at in range(len(head) - 1, 0, -1) if at not in spare)]
        kept = list(range(len(head)))
        while (widths := self._widths([wanted[at] for at in kept], [least[at] for at in kept])) is None:
            kept.remove(giving_way.pop(0))

        def line(row: Sequence[str]) -> str:
            first, *others = (shown(row[at], size) for at, size in zip(kept, widths, strict=True))
            others = [cell.rjust(size) for cell, size in zip(others, widths[1:], strict=True)]
            return (" " * _BETWEEN).join([first.ljust(widths[0]), *others]).rstrip()

        left_out = [head[at] for at in range(len(head)) if at not in kept]
        said = [f"… and {of - len(body)} more"] if of > len(body) else []
        said += [f"A wider terminal shows: {', '.join(left_out)}"] if left_out else []
        return [line(head), *(line(row) for row in cells), *self.sentences(said)]

    def _widths(self, wanted: Sequence[int], least: Sequence[int]) -> list[int] | None:
        """Of a table's columns: the widest gives way first. None where they do not fit at their least."""
        found = list(wanted)
        over = 0 if self.columns is None else sum(found) + _BETWEEN * (len(found) - 1) - self.columns
        while over > 0:
            widest = max(range(len(found)), key=lambda at: (found[at] > least[at], found[at]))
            if found[widest] <= least[widest] and len(found) > 1:
                return None
            found[widest] -= 1
            over -= 1
        return found
