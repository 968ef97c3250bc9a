"""Repeating A/A runs: failures, interruptions, records that are kept."""

import pytest

from kernellab import cli
from kernellab.base.errors import UserError
from kernellab.doctor import aa_runs
from support.aa_records import aa_record


def test_runs_that_all_fail_are_given_up_and_cannot_tell(monkeypatch, capsys):
    def fail(*args):
        raise aa_runs.RunFailed("failed: no luck")

    monkeypatch.setattr(aa_runs, "_run_once", fail)
    assert cli.run(["doctor", "--aa", "--runs", "50"]) == 3
    seen = capsys.readouterr()
    assert seen.err.count("failed: no luck") == 3
    assert seen.out == "no run could be completed\n"


def test_an_interruption_keeps_what_there_is(monkeypatch, capsys):
    outcomes = iter([aa_record()])

    def run_once(*args):
        for record in outcomes:
            return record
        raise KeyboardInterrupt

    monkeypatch.setattr(aa_runs, "_run_once", run_once)
    assert cli.run(["doctor", "--aa"]) == 130
    seen = capsys.readouterr()
    assert "A/A run 1 of 10" in seen.err
    assert "covers 1 in 1 of 1 runs" in seen.out


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    (tmp_path / "run-001").mkdir()
    with pytest.raises(UserError, match="already holds a run"):
        aa_runs.repeat(1, tmp_path, say=print)


def test_a_request_that_no_run_can_carry_out_is_refused(tmp_path):
    with pytest.raises(UserError, match="no module nowhere"):
        aa_runs.repeat(1, tmp_path, device="cpu", target="nowhere:op", say=print)
