"""The table printer: columns that fit the terminal, or are wrapped, cut, or left out and named."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kernellab.base.text import printable

Cell = str | Text

_GAP = 2  # spaces between columns
_CONSOLE = Console(width=80)  # rich needs one to wrap a text; its width is not used


@dataclass(frozen=True)
class Column:
    """One column. With nothing but a title it is never cut, wrapped or left out, as is right for figures."""

    title: str
    align: Literal["left", "right"] = "right"
    drop: int = 0  # on a narrow terminal the column with the highest number is left out first; 0: never
    cut_to: int | None = None  # characters that a text may be cut to, with "…" at its end
    wrap_to: int | None = None  # characters that the lines of a text may be wrapped to
    style: str = ""


@dataclass(frozen=True)
class Row:
    cells: Sequence[Cell]
    style: str = ""


@dataclass(frozen=True)
class Table:
    """`total`: how many rows there are in all, where not every one is shown. `unbroken`: only a terminal gets its texts
    wrapped."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    total: int = 0
    indent: int = 1
    header: bool = True
    header_style: str = "dim"
    unbroken: bool = False

    def lines(self, width: int | None, *, complete: bool = False) -> list[Text]:
        """The table in lines of at most `width` characters; None: as wide as it needs.

        `complete`: nothing is cut or left out, even if lines become longer. Texts are still wrapped.
        """
        cells = [[_text(cell) for cell in row.cells] for row in self.rows]
        widths = self._fit(cells, width, complete=complete)
        lines = []
        if self.header:
            titles = [Text(column.title) for column in self.columns]
            lines += self._row_lines(titles, widths, self.header_style)
        for row, texts in zip(self.rows, cells, strict=True):
            lines += self._row_lines(texts, widths, row.style)
        notes = [f"… and {self.total - len(self.rows)} more"] if self.total > len(self.rows) else []
        left_out = [column.title for at, column in enumerate(self.columns) if at not in widths]
        if left_out:
            notes.append(f"A wider terminal shows: {', '.join(left_out)}")
        margin = " " * self.indent
        for note in notes:
            wrapped = textwrap.wrap(note, (width or len(note) + self.indent) - self.indent, subsequent_indent="  ")
            lines += [Text(margin + part, style="dim") for part in wrapped]
        return lines

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        """A terminal gets what fits it; a pipe gets everything."""
        yield from self.lines(
            None if self.unbroken and not out.is_terminal else out.width, complete=not out.is_terminal
        )

    def _fit(self, cells: Sequence[Sequence[Text]], width: int | None, *, complete: bool) -> dict[int, int]:
        """Each column that is shown, with its width: texts are wrapped first, then cut, then columns left out."""
        wanted = {
            at: max([cell_len(column.title) if self.header else 0, *(cell_len(row[at].plain) for row in cells)])
            for at, column in enumerate(self.columns)
        }
        if width is None:
            return wanted
        kept = dict(wanted)
        while True:
            widths = dict(kept)
            excess = self.indent + sum(widths.values()) + _GAP * (len(widths) - 1) - width
            excess = self._narrow(widths, excess, {at: column.wrap_to for at, column in enumerate(self.columns)})
            if complete:
                return widths
            excess = self._narrow(widths, excess, {at: column.cut_to for at, column in enumerate(self.columns)})
            droppable = [at for at in kept if self.columns[at].drop]
            if excess <= 0 or not droppable:
                return widths
            del kept[max(droppable, key=lambda at: self.columns[at].drop)]

    @staticmethod
    def _narrow(widths: dict[int, int], excess: int, least: dict[int, int | None]) -> int:
        """Takes the excess from the columns that may be narrower, the widest first. Returns what is left of it."""
        while excess > 0:
            narrowable = [at for at, width in widths.items() if (limit := least[at]) is not None and width > limit]
            if not narrowable:
                break
            widths[max(narrowable, key=lambda at: widths[at])] -= 1
            excess -= 1
        return excess

    def _row_lines(self, texts: Sequence[Text], widths: dict[int, int], style: str) -> list[Text]:
        """One row, over as many lines as its longest wrapped text."""
        parts = {at: _break(texts[at], width, self.columns[at]) for at, width in widths.items()}
        lines = []
        for number in range(max(map(len, parts.values()), default=0)):
            line = Text(" " * self.indent)
            for position, (at, width) in enumerate(widths.items()):
                part = parts[at][number] if number < len(parts[at]) else Text()
                padding = " " * (width - cell_len(part.plain))
                line.append(" " * _GAP if position else "")
                line.append(padding if self.columns[at].align == "right" else "")
                styled = part.copy()
                styled.stylize(self.columns[at].style)
                line.append_text(styled)
                line.append(padding if self.columns[at].align == "left" else "")
            line.rstrip()
            line.style = style
            lines.append(line)
        return lines


def print_table(table: Table, out: Console) -> None:
    out.print(table, soft_wrap=True)  # its lines fit already: the console must not break them again


def print_lines(lines: Sequence[Text], out: Console) -> None:
    """Lines that fit already: the console must not break them again."""
    for line in lines:
        out.print(line, soft_wrap=True)


def split_columns(table: Table, width: int) -> list[Table]:
    """The table as several that each fit, for columns of which none may be left out. The first column is repeated."""
    tables: list[Table] = []
    start = 1
    while start < len(table.columns) or not tables:
        end = len(table.columns)
        while end > start + 1 and max(len(line) for line in _select(table, start, end).lines(None)) > width:
            end -= 1
        tables.append(_select(table, start, end))
        start = end
    return tables


def _select(table: Table, start: int, end: int) -> Table:
    chosen = [0, *range(start, end)]
    rows = [Row([row.cells[at] for at in chosen], row.style) for row in table.rows]
    return replace(table, columns=[table.columns[at] for at in chosen], rows=rows)


def _text(cell: Cell) -> Text:
    return Text(printable(cell)) if isinstance(cell, str) else cell


def _break(text: Text, width: int, column: Column) -> list[Text]:
    """A cell as lines of a width: wrapped where its column wraps, cut where not."""
    if cell_len(text.plain) <= width:
        return [text]
    if column.wrap_to is None:
        cut = text.copy()
        cut.truncate(width, overflow="ellipsis")
        return [cut]
    lines = list(text.wrap(_CONSOLE, width, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines
