"""The summary of A/A runs as tables."""

import io

import pytest
from rich.console import Console

from kernellab.doctor.aa_summary import summarise
from kernellab.reporting.terminal import aa
from support.aa_records import aa_record


def printed(*records, width=120):
    out = Console(file=io.StringIO(), width=width)
    aa.show(summarise(records), out)
    return out.file.getvalue()


def test_each_known_difference_has_a_row_with_its_verdicts():
    honest = {"plus1": 1.01, "plus2": 1.02, "plus5": 1.05}
    text = printed(aa_record(98, **honest), aa_record(102, **honest | {"b": 1.02}))
    rows = {line.split("  ")[0].strip(): line.split()[-7:-3] for line in text.splitlines() if " % " in line}
    assert rows["equal"] == ["1", "1", "–", "–"]
    assert rows["+5 % work"] == ["–", "2", "–", "–"]
    assert "covers 1 in 1 of 2 runs" in text
    assert "time 100 µs, ± 2.8 % from run to run (standard deviation)" in text
    assert text.endswith("2 runs, each a process of its own, on a machine\n")


@pytest.mark.parametrize(("missing", "text"), [("b", "not timed"), ("a", "  not timed")])
def test_what_was_not_timed_is_named(missing, text):
    record = aa_record()
    record["results"] = [r for r in record["results"] if r["impl"] != missing]
    assert text in printed(record)
