"""CSV that a spreadsheet opens as data: texts never become formulas, numbers keep every digit.

A spreadsheet executes a cell that begins with = + - @ or a tab as a formula. Texts of a record may be a stranger's, so
such a text gets an apostrophe in front, as spreadsheets themselves mark text. Numbers are written as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from kernellab.base.text import printable
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.exports.columns import COLUMNS, rows

_LONGEST_TEXT = 32_000  # characters: a spreadsheet's cell holds 32,767, and Python's reader refuses 131,073
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the wide forms too: spreadsheets read both


def results_csv(record: DerivedRecord) -> str:
    """Every result of a derived record, one line for each pass, under the header that all runs share."""
    return csv_text([column.name for column in COLUMNS], rows(record))


def csv_text(columns: Sequence[str], lines: Iterable[Mapping[str, object]]) -> str:
    """The header and one line for each row, separated by commas; a cell without a value is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(column) for column in columns])
    writer.writerows([_cell(row.get(column)) for column in columns] for row in lines)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return repr(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    line = printable(str(value), _LONGEST_TEXT)  # tabs and line breaks become spaces
    return f"'{line}" if line.lstrip().startswith(_FORMULA) else line
