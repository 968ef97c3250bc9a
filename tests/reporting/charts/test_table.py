"""A long sweep in the terminal: one table, reasons once, and the answer in words."""

import re

import pytest

from kernellab.reporting.charts import series, table
from support.records import timed
from support.sweeps import at, derived_record, printed, swept


def test_a_long_sweep_is_one_table_with_reasons_once():
    text = printed(swept())
    assert text.count("f · over N · dim0=32 · float32 · cpu, GB/s") == 1
    assert re.search(r"^ +N +torch +cpp +liar +fastest", text, re.M)
    assert re.search(r"^ +64 +15.\d+ +0.5 +0.333 +torch", text, re.M)
    assert re.search(r"^ +8192 +0.122 +0.5 +wrong +cpp", text, re.M)
    assert " liar   wrong at N=2048, 4096, 8192: values: at [0, 2048] (and 2 other reasons)" in text
    assert text.count("needs a GPU") == 1
    assert " cuda   skipped at every size: needs a GPU" in text


def test_the_closing_line_says_which_is_fastest_where():
    text = printed(swept())
    assert (
        "f over N · dim0=32 · float32: torch is fastest from N=64 to 1024; cpp is fastest from N=2048 to 8192." in text
    )
    assert "At best, torch at N=64 reaches 16 % of this machine's copy bandwidth." in text
    assert "21 results right, 8 skipped, 3 not right: f liar." in text


def test_a_ceiling_that_was_measured_too_low_is_doubted():
    results = [at(timed("t", 5), {"N": n}) for n in range(1, 9)]
    assert "of this machine's copy bandwidth (measured too low? --refresh-ceilings" in printed(derived_record(*results))


def test_leads_that_change_too_often_are_counted():
    results = [
        at(timed(impl, us), {"N": n}) for n in range(1, 10) for impl, us in (("a", 10 + n % 2), ("b", 11 - n % 2))
    ]
    (line,) = table.closing(series.find(derived_record(*results))[0])
    assert line.startswith("f over N · float32: b is fastest at 5 of 9 sizes, between 1 and 9; ")
    assert "; a is fastest at 4 of 9 sizes, between 2 and 8. At best, " in line


def test_two_whose_lead_is_not_resolved_are_one_stretch_whichever_is_ahead():
    noise = [50.0, 150.0] * 10
    results = []
    for n in range(1, 9):
        for impl, shift in (("a", n % 2), ("b", 0.5)):
            entry = at(timed(impl, 100), {"N": n})
            entry["times"][0]["samples_us"] = [us + shift for us in noise]
            results.append(entry)
            noise = noise[::-1]
    (line,) = table.closing(series.find(derived_record(*results))[0])
    assert line.startswith("f over N · float32: the lead between a and b is not resolved at every size.")


def test_few_sizes_keep_their_own_tables():
    text = printed(swept((64, 128, 256)))
    assert "f · 32×64 · float32 · cpu" in text
    assert "f 32×256 · float32: torch is fastest" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_screen_gets_the_columns_in_several_tables(width):
    results = [at(timed(f"impl-number-{i}", n), {"N": n}) for n in range(1, 9) for i in range(9)]
    text = printed(derived_record(*results), width=width, terminal=True)
    table = text[: text.index("\n\n")]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= width
    assert all(f"impl-number-{i}" in table for i in range(9))


def test_a_check_of_many_sizes_is_a_line_for_each_implementation():
    results = [at(timed("torch", 5), {"N": n}) for n in range(1, 9)]
    text = printed(derived_record(*({**r, "times": []} for r in results), stages=["check"]))
    assert " torch  right at every size\n" in text
    assert "f · over N · float32 · cpu\n" in text


def test_growth_is_shown_with_its_interval_and_where_it_changes():
    text = printed(swept())
    assert "f torch: time grows as N^1.00 (1.00 to 1.00)" in text
    assert "f cpp: time grows as N^0.00 (" in text
    results = [
        at(timed("t", 50 if n <= 512 else 50 * (n / 512) ** 2), {"N": n}) for n in (64, 128, 256, 512, 1024, 2048, 4096)
    ]
    assert re.search(
        r"f t: time grows as N\^0.00 \(.*\) up to 512, then as N\^2.00 \(.*\)", printed(derived_record(*results))
    )
    assert "grows" not in printed(swept((64, 128, 256)))
