"""The history in the terminal: what a change says, and what a narrow terminal leaves out."""

import pytest

from kernellab.history.index import Index
from kernellab.history.queries import Filters, all_runs, failures
from kernellab.history.trends import trends
from kernellab.reporting.terminal import history
from support.histories import commit_name, write_run
from support.sweeps import console


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


def shown(runs, width=200):
    with Index(runs) as index:
        index.refresh()
        out = console(width=width, terminal=True)
        history.show_trends(trends(index, Filters()), failures(index, Filters()), out)
        return out.file.getvalue()


def write_history(runs, noise=(1.0,), faster=False):
    for number in range(24):
        level = (12.0 if faster else 10.0) if number < 14 else (10.0 if faster else 12.0)
        folder = write_run(runs / str(number), {"triton": level * noise[number % len(noise)]}, number=number)
        if number >= 14:
            journal = folder / "journal.jsonl"
            journal.write_text(journal.read_text().replace('"torch": "2.13"', '"torch": "2.14"'))


def test_a_change_says_how_much_longer_since_which_commit_and_what_changed_with_it(runs):
    write_history(runs)
    text = shown(runs)
    assert "triton at N=8 · float32 takes 20.0 % longer (19." in text
    assert f"since {commit_name(14)[:10]} (2026-01-15, main): " in text
    assert " → 12 µs; changed with it: torch 2.13 → 2.14" in text
    assert "it may be any" not in text


def test_a_gain_is_told_as_less_time(runs):
    write_history(runs, faster=True)
    assert "takes 16.7 % less (16." in shown(runs)


def test_where_the_commit_is_not_certain_the_range_is_named(runs):
    write_history(runs, noise=(0.95, 1.05, 1.0, 0.97, 1.04, 0.96, 1.02))
    assert "; it may be any of the " in shown(runs)


def test_a_narrow_terminal_says_what_it_leaves_out(runs):
    write_history(runs)
    text = shown(runs, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "A wider terminal shows: " in text
    assert "▁" in text


def test_without_a_change_it_says_so(runs):
    write_run(runs / "a")
    assert "No change of time is certain." in shown(runs)


def test_what_failed_last_is_named_and_what_was_mended_is_not(runs):
    write_run(runs / "a", {"triton": 1.0}, number=1)
    write_run(runs / "b", {"triton": 2.0}, number=2, status="wrong")
    line = f"gelu triton at N=8 · float32 failed last, at {commit_name(2)[:10]} (2026-01-03): wrong: a reason"
    assert line in shown(runs)
    write_run(runs / "c", {"triton": 3.0}, number=3)
    assert "failed" not in shown(runs)


def test_the_overview_lists_unfinished_and_unreadable_runs(runs):
    for number in range(12):
        write_run(runs / f"sound {number}", number=number + 1)
    write_run(runs / "cut", complete=False)
    (runs / "bad").mkdir()
    (runs / "bad" / "run.json").write_text("[]")
    with Index(runs) as index:
        index.refresh()
        out = console(width=160, terminal=True)
        history.show_overview(all_runs(index), trends(index, Filters()), [], index.runs, "runs", out)
    text = out.file.getvalue()
    assert "run.json is not a kernellab record" in text
    assert "14 runs in runs: 1 unfinished, 1 unreadable." in text
    assert "… and " in text
