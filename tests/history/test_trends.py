"""Trends: runs grouped by commit, in the order of commits, and what changed with a change."""

import json
import re
import shutil

import pytest

from kernellab.history.index import Index
from kernellab.history.queries import Filters
from kernellab.history.trends import trends
from kernellab.record.journal import Journal
from support.histories import commit_name, write_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


def found(runs, **filters):
    with Index(runs) as index:
        index.refresh()
        return trends(index, Filters(**filters))


def test_commits_are_ordered_by_their_time_and_not_by_that_of_their_runs(runs):
    write_run(runs / "c", {"triton": 3.0}, number=3)
    write_run(runs / "a, measured last", {"triton": 1.0}, number=1, hours_later=1000)
    write_run(runs / "b", {"triton": 2.0}, number=2)
    write_run(runs / "b again", {"triton": 2.2}, number=2, hours_later=3)
    (trend,) = found(runs)
    assert [group.commit for group in trend.commits] == [commit_name(number) for number in (1, 2, 3)]
    assert [len(group.points) for group in trend.commits] == [1, 2, 1]
    assert [round(group.median_us, 1) for group in trend.commits] == [1.0, 2.1, 3.0]
    assert trend.series.latest.run.folder.name == "a, measured last"


def test_a_run_with_changed_files_stands_alone_at_its_own_time(runs):
    write_run(runs / "clean", number=1)
    write_run(runs / "changed", {"triton": 10.5}, number=1, changes="+changes", hours_later=30)
    write_run(runs / "changed again", {"triton": 11.0}, number=1, changes="+changes", hours_later=31)
    write_run(runs / "next", number=2)
    (trend,) = found(runs)
    names = [group.points[0].run.folder.name for group in trend.commits]
    assert names == ["clean", "next", "changed", "changed again"]


def test_samples_that_two_runs_hold_count_once(runs):
    write_run(runs / "a", number=1)
    shutil.copytree(runs / "a", runs / "copy")
    (trend,) = found(runs)
    assert len(trend.series.points) == 1


def test_times_of_wrong_implementations_and_of_other_machines_are_kept_apart(runs):
    write_run(runs / "a", number=1)
    write_run(runs / "wrong", number=2, status="wrong")
    write_run(runs / "elsewhere", number=3, machine="AMD EPYC 2 threads")
    assert [(trend.series.machine[:6], len(trend.series.points)) for trend in found(runs)] == [
        ("AMD EP", 1),
        ("NVIDIA", 1),
    ]


def test_a_change_names_its_commit_and_the_packages_that_changed_with_it(runs):
    for number in range(12):
        folder = write_run(runs / str(number), {"triton": 10.0 if number < 7 else 12.0}, number=number)
        if number >= 7:
            journal = folder / "journal.jsonl"
            journal.write_text(journal.read_text().replace('"torch": "2.13"', '"torch": "2.14"'))
    (trend,) = found(runs)
    (change,) = trend.changes
    assert (change.verdict, change.commit.commit, change.previous.commit) == ("slower", commit_name(7), commit_name(6))
    assert change.versions == ("torch 2.13 → 2.14",)
    assert change.candidates == (change.commit,)
    assert change.doubt is None


def test_a_change_since_which_most_times_cannot_be_trusted_says_why(runs):
    for number in range(12):
        folder = write_run(runs / str(number), {"triton": 10.0 if number < 7 else 12.0}, number=number)
        if number >= 7:  # two windows of a round differ by half: noisy
            journal = folder / "journal.jsonl"
            spread = re.compile(r'("round": (\d+), "samples_us": {"triton": )([\d.]+)')
            journal.write_text(
                spread.sub(lambda m: f"{m[1]}{float(m[3]) * (0.6 + 0.8 * (int(m[2]) % 2))}", journal.read_text())
            )
    (trend,) = found(runs)
    (change,) = trend.changes
    assert change.doubt is not None
    assert "noisy" in change.doubt


def test_only_the_series_by_which_a_run_compared_are_main(runs):
    folder = write_run(runs / "a", number=1)
    lines = (folder / "journal.jsonl").read_text().splitlines()
    warm = [json.dumps({**json.loads(line), "cache": "warm"}) for line in lines if '"cache": "cold"' in line]
    (folder / "journal.jsonl").write_text("\n".join([*lines, *warm]) + "\n")
    assert [trend.series.cache for trend in found(runs)] == ["cold", "warm"]
    assert [trend.series.cache for trend in found(runs, main=True)] == ["cold"]


def test_a_run_in_progress_is_no_part_of_a_trend_until_it_ends(runs):
    write_run(runs / "a", {"triton": 1.0}, number=1)
    write_run(runs / "b", {"triton": 2.0}, number=2, complete=False)
    journal = Journal(runs / "b")
    assert [len(trend.series.points) for trend in found(runs)] == [1]
    journal.close()
    assert [len(trend.series.points) for trend in found(runs)] == [2]
