"""Which run of a branch or commit another run is compared with."""

import pytest

from kernellab.base.errors import UserError
from kernellab.history.baseline import baseline_run
from support.histories import commit_name, write_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


@pytest.fixture
def mine(runs):
    return write_run(runs / "mine", number=9, branch="feature")


def test_the_last_run_of_the_newest_commit_of_the_branch_is_chosen(runs, mine):
    write_run(runs / "a", number=1)
    write_run(runs / "b", number=2, hours_later=1)
    write_run(runs / "c", number=2, hours_later=2)
    write_run(runs / "old commit, measured today", number=1, hours_later=24 * 30)
    write_run(runs / "d", number=3, branch="other")
    assert baseline_run("main", mine, runs) == runs / "c"
    assert baseline_run("other", mine / "run.json", runs) == runs / "d"
    assert baseline_run(commit_name(1)[:7], mine, runs) == runs / "old commit, measured today"


def test_runs_that_cannot_be_a_baseline_are_left_out(runs, mine):
    write_run(runs / "good", number=1)
    write_run(runs / "unfinished", number=2, complete=False)
    write_run(runs / "changed", number=3, changes="+changes")
    write_run(runs / "another machine", number=4, machine="AMD EPYC 2 threads")
    write_run(runs / "another op", number=5, op="softmax")
    write_run(runs / "another size", number=6, size=16)
    write_run(runs / "another implementation", {"cuda": 1.0}, number=7)
    assert baseline_run("main", mine, runs) == runs / "good"


def test_a_run_is_not_compared_with_itself(runs):
    write_run(runs / "before", number=1)
    after = write_run(runs / "after", number=2)
    assert baseline_run("main", after, runs) == runs / "before"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "no run of the branch or commit 'nothing' in .*runs: its runs are of main"),
        ("main", {"complete": False}, "1 run of 'main' in .*, but none is complete and of a clean commit"),
        ("main", {"machine": "AMD EPYC"}, "the runs of 'main' are of other machines than NVIDIA H200 .*: AMD EPYC"),
        ("main", {"op": "softmax"}, "no run of 'main' timed an implementation, op and case that .*mine timed"),
    ],
)
def test_where_there_is_none_the_message_says_what_there_is(runs, mine, name, options, message):
    write_run(runs / "a", **options)
    with pytest.raises(UserError, match=message):
        baseline_run(name, mine, runs)
