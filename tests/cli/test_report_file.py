"""The report at the end of a run: named, or why there is none; and which runs are joined."""

from pathlib import Path

import pytest

from kernellab.cli import report_file
from support.sample_records import sample_record, sample_run


@pytest.fixture
def record():
    return sample_record("run-gelu")


def test_the_line_names_the_file(record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert report_file.write_report(record, tmp_path) == "report: report.html"
    assert "gelu" in (tmp_path / "report.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"], "no scratch file is left"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError("x"), "no report (KeyError): klab report run --debug shows why"),
        (KeyboardInterrupt(), "no report, as it was interrupted: klab report run writes it"),
    ],
)
def test_a_failure_is_a_line_and_not_the_end_of_the_run(record, tmp_path, monkeypatch, error, line):
    def fail(*_):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report_file, "write", fail)
    assert report_file.write_report(record, tmp_path / "run") == line


def test_a_report_of_one_run_is_in_its_folder_and_of_several_in_the_current_one():
    run = sample_run("run-gelu")
    assert report_file.default_path([run]) == report_file.default_path([run / "run.json"]) == run / "report.html"
    assert str(report_file.default_path([run, run])) == "report.html"


def test_joined_runs_keep_the_folders_of_their_files():
    cells = [sample_run("cell-1"), sample_run("cell-2")]
    (joined,) = report_file.load(cells)
    assert joined.folders == cells
    assert len(joined.record["merged_from"]) == 2


def test_a_run_that_is_named_twice_is_shown_once(tmp_path, monkeypatch):
    run, other = tmp_path / "run", tmp_path / "other"
    monkeypatch.chdir(tmp_path)
    names = [run, run / "run.json", run / "journal.jsonl", Path("run"), other, run / "a.json", run / "b.json"]
    assert report_file.different_runs(names) == [run, other, run / "a.json", run / "b.json"]
