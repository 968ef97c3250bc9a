"""The comparison in the terminal: the answer is the first line, what is slower the first row."""

import re

from kernellab.comparison.compare import Side, compare
from kernellab.reporting.comparisons import terminal
from kernellab.reporting.text.console import console
from support.comparisons import random_run, run, variation
from support.records import result
from support.terminal import set_terminal

STEADY = [100.0 + i / 100 for i in range(20)]


def shown(capsys, before, after, *, verbose=False, **options):
    comparison = compare(Side("runs/a", [before]), Side("runs/b", [after]), load=lambda machine: variation(), **options)
    terminal.show(comparison, console(), verbose=verbose)
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()


def test_the_answer_comes_first_and_the_slowest_leads_the_table(capsys):
    lines = shown(capsys, random_run(1), random_run(2, slower={2: 1.05, 3: 1.2}))
    assert lines[0].startswith("2 of 10 times are slower, most: f impl-3 at 8 · float32: +")
    assert lines[1] == "  before: runs/a, commit c0"
    rows = [line.split() for line in lines if line.startswith(" ")]
    assert [row[2] for row in rows if row[0] == "slower"] == ["impl-3", "impl-2"]
    assert "run to run on this machine (klab doctor --aa, 10 runs" in "\n".join(lines)


def test_equal_times_are_counted_and_shown_on_request(capsys):
    runs = random_run(1), random_run(2)
    few, all_rows = shown(capsys, *runs, precision=0.05), shown(capsys, *runs, precision=0.05, verbose=True)
    assert "  10 times the same: --verbose shows them" in few
    assert not [line for line in few if "impl-" in line]
    assert len([line for line in all_rows if "impl-" in line]) == 10


def test_what_failed_is_shown_with_its_reason(capsys):
    lines = shown(capsys, run(result("f", STEADY)), run(result("f", status="wrong", reason="values differ")))
    assert " worse   f   f     8 · float32  ok → wrong  values differ" in lines


def test_a_narrow_terminal_leaves_columns_out_and_breaks_no_row(capsys, monkeypatch):
    set_terminal(monkeypatch, 60)
    lines = shown(capsys, random_run(1), random_run(2, slower={3: 1.2}))
    assert [line for line in lines if len(line) > 60] == []
    assert any("A wider terminal shows" in line for line in lines)
