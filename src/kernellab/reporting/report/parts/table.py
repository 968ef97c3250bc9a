"""Tables of a report: cells with a value to sort by and a tone. Tables of the terminal become such tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rich.text import Text

from kernellab.base.text import printable
from kernellab.record.statuses import FAILED, IMPRECISE, OK, UNKNOWN
from kernellab.reporting.text import table as text_table

Tone = Literal["", "good", "warn", "bad", "faint", "strong"]
MOST_ROWS = 2000  # that are shown: a browser sorts as many without delay
_MOST_CHARACTERS = 300  # of a cell
_TONES: dict[str, Tone] = {"red": "bad", "yellow": "warn", "dim": "faint", "green": "good", "bold": "strong"}


@dataclass(frozen=True)
class Cell:
    """`sort` orders a column where its texts do not; None comes last. `whole` is what the text is short for."""

    text: str
    tone: Tone = ""
    sort: float | None = None
    remark: str = ""  # below the text, smaller
    whole: str = ""

    @property
    def shown(self) -> str:
        """The text, cut to what a cell can hold."""
        return printable(self.text, _MOST_CHARACTERS)


@dataclass(frozen=True)
class Column:
    """`filter` names the choice by which readers filter the rows; empty for a column without one."""

    title: str
    numeric: bool = False
    filter: str = ""


@dataclass(frozen=True)
class Table:
    """`caption` says what the table shows. Rows beyond `MOST_ROWS` are counted, not shown."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False

    @property
    def shown(self) -> Sequence[Sequence[Cell]]:
        return self.rows[:MOST_ROWS]

    @property
    def left_out(self) -> int:
        return len(self.rows) - len(self.shown)

    def without_empty_columns(self) -> Table:
        kept = [at for at in range(len(self.columns)) if any(row[at].text for row in self.rows)]
        rows = [[row[at] for at in kept] for row in self.rows]
        return replace(self, columns=[self.columns[at] for at in kept], rows=rows)

    @property
    def choices(self) -> Mapping[str, Sequence[str]]:
        """For each column that can be filtered: its different texts, where there are several."""
        texts = {
            column.filter: list(dict.fromkeys(row[at].shown for row in self.shown))
            for at, column in enumerate(self.columns)
            if column.filter
        }
        return {name: values for name, values in texts.items() if len(values) > 1}


def from_terminal(table: text_table.Table, caption: str) -> Table:
    """A table of the terminal, complete, with its styles as tones."""
    columns = [Column(column.title, numeric=column.align == "right") for column in table.columns]
    rows = [
        [_cell(cell, row.style or column.style) for cell, column in zip(row.cells, table.columns, strict=True)]
        for row in table.rows
    ]
    return Table(caption, columns, rows)


def _cell(cell: text_table.Cell, style: str) -> Cell:
    return Cell(cell.plain, tone(cell)) if isinstance(cell, Text) else Cell(cell, _tone(style))


def tone(text: Text) -> Tone:
    """The tone of a text with styles: that of the whole, or of its first styled part."""
    styles = [str(text.style), *(str(span.style) for span in text.spans)]
    return next((found for style in styles if (found := _tone(style))), "")


def _tone(style: str) -> Tone:
    words = style.split()
    return next((_TONES[word] for word in _TONES if word in words), "")


@dataclass(frozen=True)
class Line:
    """A sentence with its tone."""

    text: str
    tone: Tone = field(default="")


def lines(texts: Sequence[Text]) -> list[Line]:
    """Lines of the terminal as sentences."""
    return [Line(text.plain.strip(), tone(text)) for text in texts]


def status_tone(status: str) -> Tone:
    if status in FAILED:
        return "bad"
    return "good" if status == OK.name else "warn" if status in (UNKNOWN, IMPRECISE.name) else "faint"
