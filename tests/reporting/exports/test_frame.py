"""Data frames, with pandas and without."""

import importlib.util

import pytest

from kernellab.base.errors import UserError
from kernellab.reporting.exports.columns import COLUMNS, rows
from kernellab.reporting.exports.frame import data_frame
from support.sample_records import sample_record


def test_a_frame_has_the_rows_and_their_values():
    run = sample_record("run-gelu", "h200")
    run["results"][0]["derived"]["reason"] = "=1+1"
    frame = data_frame(run)
    assert len(frame) == len(run["results"])
    assert frame["reason"][0] == "=1+1"  # a frame is no spreadsheet
    fastest = frame.loc[frame["median_us"].idxmin()]
    assert fastest["median_us"] == min(row["median_us"] for row in rows(run) if row["median_us"])


@pytest.mark.parametrize("run", ["run-gelu", "check-square"])
def test_numbers_are_numbers_where_none_has_a_value_and_texts_are_texts(run):
    frame = data_frame(sample_record(run))
    for column in COLUMNS:
        values = [row[column.name] for row in rows(sample_record(run)) if row[column.name] is not None]
        assert all(isinstance(value, (int, float)) == column.is_number for value in values), column.name
        assert (frame[column.name].dtype.kind in "if") == column.is_number, column.name


def test_without_pandas_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install pandas"):
        data_frame(sample_record("run-gelu"))
