"""Rows of results: what they hold, and one header for every run."""

import math

import pytest

from kernellab.reporting.exports.columns import COLUMNS, renew, rows
from support.klab import HERE
from support.records import record, result, timed
from support.sample_records import sample_record

PAGE = HERE.parent / "docs" / "exports.md"


@pytest.mark.parametrize("machine", ["cpu", "h200"])
def test_a_row_holds_what_the_verdict_does(machine):
    run = sample_record("run-gelu", machine)
    exported = rows(run)
    assert len(exported) == len(run["results"]) > 3
    for row, seen in zip(exported, run["results"], strict=True):
        derived = seen["derived"]
        assert (row["op"], row["impl"], row["status"]) == ("gelu", seen["impl"], derived["status"])
        assert row["median_us"] == (derived["time"]["median_us"] if derived["time"] else None)
        baseline = derived["speedup"]["baseline"]
        assert row["speedup_low"] == (baseline["low"] if baseline else None)
        assert (row["pass"], row["dtype"], row["machine"]) == ("forward", "float32", run["machine"]["class"])
    assert any(row["median_us"] for row in exported)


def test_each_pass_is_a_row():
    run = sample_record("run-gelu")
    backward = {**run["results"][0]["derived"]["passes"]["forward"], "time": None}
    run["results"][0]["derived"]["passes"]["backward"] = backward
    assert [(row["impl"], row["pass"]) for row in rows(run)][:2] == [("manual", "forward"), ("manual", "backward")]


def test_every_run_has_the_same_columns_also_one_that_was_interrupted():
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    for run in ("bench-softmax", "check-square", "interrupted", "cell-1", "explain-softmax"):
        for row in rows(sample_record(run)):
            assert list(row) == names
            assert all(value is None or not isinstance(value, float) or math.isfinite(value) for value in row.values())


def test_a_record_without_environment_or_machine_has_empty_cells():
    from kernellab.record import verdict

    (row, other) = rows(verdict.derive(record(timed("a", 10.0), result("b", status="skipped", reason="no"))))
    assert (row["torch"], row["commit"], row["machine"]) == (None, None, None)
    assert (other["status"], other["reason"], other["median_us"]) == ("skipped", "no", None)


def test_the_documentation_has_the_columns_of_today():
    page = PAGE.read_text()
    assert renew(page) == page, "run python -m kernellab.reporting.exports.columns docs/exports.md"
    assert renew(page.replace("| `impl` |", "| `way` |")) == page
