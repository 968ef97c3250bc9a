"""Data frames, with pandas and without."""

import importlib.util

import pytest

from kernellab.base.errors import UserError
from kernellab.reporting.exports.columns import rows
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


def test_without_pandas_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install pandas"):
        data_frame(sample_record("run-gelu"))
