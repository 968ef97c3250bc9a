"""Plain lines fitted to a terminal: sentences wrapped, tables narrowed. A pipe gets everything, unwrapped."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernellab.base.text import printable
from kernellab.reporting.text.console import console
from kernellab.reporting.text.table import Column, Row, Table

_SHORTEST_TEXT, _SHORTEST_NAME = 12, 20  # characters that texts may be cut to and still be understood


def _terminal_width() -> int | None:
    return console().width if sys.stdout.isatty() else None


@dataclass(frozen=True)
class Layout:
    """`name`: the longest name, in characters. `columns`: the width of the terminal; None where there is none."""

    name: int = 80
    columns: int | None = field(default_factory=_terminal_width)

    def sentences(self, sentences: Iterable[str]) -> list[str]:
        """Each sentence wrapped. It keeps its indent; further lines are indented by two more."""
        if self.columns is None:
            return list(sentences)
        lines: list[str] = []
        for sentence in sentences:
            indent = " " * (len(sentence) - len(sentence.lstrip()) + 2)
            width = max(self.columns, 2 * len(indent))
            lines += textwrap.wrap(sentence, width, subsequent_indent=indent, break_on_hyphens=False) or [sentence]
        return lines

    def table(
        self, head: Sequence[str], body: Sequence[Sequence[str]], *, total: int = 0, drop_first: Sequence[int] = ()
    ) -> list[str]:
        """The first column left-aligned, the others right-aligned. `total`: the number of all rows.

        Where columns have to be left out, those of `drop_first` go first, then the others from the right.
        """
        cells = [[printable(cell, self.name) for cell in row] for row in body]
        order = [*drop_first, *(at for at in range(len(head) - 1, 0, -1) if at not in drop_first)]
        columns = [
            Column(
                title,
                align="right" if at else "left",
                drop=len(order) - order.index(at) if at in order else 0,
                cut_to=_SHORTEST_NAME if not at else _SHORTEST_TEXT if _is_text(cells, at) else None,
            )
            for at, title in enumerate(head)
        ]
        table = Table(columns, [Row(row) for row in cells], total=total, indent=0)
        return [line.plain for line in table.lines(self.columns)]


def _is_text(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Whether a column holds texts, which may be cut, and not figures."""
    return any(row[at][:1].isalpha() for row in rows)
