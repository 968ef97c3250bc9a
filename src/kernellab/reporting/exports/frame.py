"""Results as a data frame of pandas, which need not be installed."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.exports.columns import COLUMNS, rows

if TYPE_CHECKING:
    import pandas


def data_frame(record: DerivedRecord) -> pandas.DataFrame:
    """The rows of `columns` with their values as they are: nothing is marked as text, as it is for spreadsheets."""
    if importlib.util.find_spec("pandas") is None:
        raise UserError("to_pandas needs pandas: pip install pandas. to_csv works without it")
    import pandas

    frame = pandas.DataFrame(rows(record), columns=[column.name for column in COLUMNS])
    numbers = [column.name for column in COLUMNS if column.is_number]
    frame[numbers] = frame[numbers].apply(pandas.to_numeric)  # a column without values is one of numbers, too
    return frame
