"""The summary of A/A runs: finds, misses, false alarms, variation."""

import pytest

from kernellab.doctor.aa_summary import summarise, variations
from support.aa_records import aa_record


def test_the_summary_counts_finds_misses_and_false_alarms():
    honest = {"plus1": 1.01, "plus2": 1.02, "plus5": 1.05}
    records = [
        aa_record(100, **honest),
        aa_record(102, **honest | {"b": 1.02}),  # a false alarm
        aa_record(98, **honest | {"plus1": 1.0, "plus2": 0.98}),  # a miss, and more work called faster
    ]
    summary = summarise(records)
    (case,) = summary["cases"]
    assert (summary["runs"], summary["machine"]) == (3, "a machine")
    equal = case["equal"]
    assert [equal[k] for k in ("of", "covers", "same", "not_resolved", "false_alarms")] == [3, 2, 2, 0, 1]
    counted = {m["percent"]: [m["found"], m["missed"], m["wrong_way"]] for m in case["more_work"]}
    assert counted == {1: [2, 1, 0], 2: [2, 0, 1], 5: [3, 0, 0]}
    assert case["more_work"][2]["measured"] == pytest.approx(0.05, abs=0.002)
    assert 0 < equal["half_width"] < 0.003
    assert case["median_us"] == pytest.approx(100, rel=1e-3)
    assert case["variation"] == pytest.approx(0.02, rel=1e-2)  # of 98, 100 and 102
    assert case["trust"] == {"trusted": 3}


def test_an_implementation_that_was_not_timed_counts_nowhere():
    record = aa_record()
    record["results"] = [r for r in record["results"] if r["impl"] != "b"]
    summary = summarise([record])
    assert summary["cases"][0]["equal"]["of"] == 0
    assert variations(summary) == []  # one run does not vary
    assert summarise([]) == {"runs": 0, "machine": None, "versions": None, "cases": []}
