"""`klab report` writes one HTML file from records, without torch."""

import json
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from kernellab.cli.report_file import write_report
from support.klab import HERE


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> Path:
    """The folder of the sample records of an H200."""
    folder = tmp_path_factory.mktemp("samples")
    with tarfile.open(HERE / "samples" / "records_h200.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_the_report_is_written_into_the_run_or_where_out_says(klab, samples, tmp_path):
    run = samples / "run-gelu"
    assert klab("report", run).code == 0
    text = (run / "report.html").read_text()
    done = klab("report", run / "run.json", "--out", tmp_path / "elsewhere.html")
    assert done.out == f"report: {tmp_path / 'elsewhere.html'}\n"
    assert "cuda and triton are equally fast" in text
    assert (tmp_path / "elsewhere.html").read_text() == text


def test_a_link_of_that_name_in_a_strangers_run_is_not_followed(klab, samples, tmp_path):
    (tmp_path / "run.json").write_bytes((samples / "run-gelu" / "run.json").read_bytes())
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.html").symlink_to(tmp_path / "mine.txt")
    assert klab("report", ".").code == 0
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "report.html").is_symlink()


def test_runs_are_joined_where_merge_joins_them_and_else_follow_one_another(klab, samples, tmp_path):
    klab("report", samples / "cell-1", samples / "cell-2")
    joined = (tmp_path / "report.html").read_text()
    assert "<title>add</title>" in joined
    assert "9 results right" in joined
    klab("report", samples / "run-gelu", samples / "check-square")
    both = (tmp_path / "report.html").read_text()
    assert "<title>2 runs</title>" in both
    assert len(re.findall("<article", both)) == 2
    ids = re.findall(r' id="([^"]*)"', both)
    assert len(ids) == len(set(ids))


def test_runs_with_machine_code_are_not_joined(klab, samples, tmp_path):
    shutil.copytree(samples / "explain-softmax", tmp_path / "again")
    klab("report", samples / "explain-softmax", tmp_path / "again")
    both = (tmp_path / "report.html").read_text()
    assert len(re.findall("<article", both)) == 2
    assert len(re.findall("<caption[^>]*>[^<]*facts of the machine code", both)) == 2


def test_json_is_the_record_with_its_verdicts_and_findings(klab, samples):
    record = klab("report", samples / "run-gelu", "--json").record
    assert record["results"][0]["derived"]["status"] == "ok"
    assert "findings" in record["results"][0]["derived"]
    records = json.loads(klab("report", samples / "run-gelu", samples / "check-square", "--json").out)
    assert [len(record["results"]) for record in records] == [6, 7]


def test_a_request_that_cannot_be_met_is_a_sentence(klab, samples, tmp_path):
    for arguments, sentence in (
        ([], "no run named"),
        (["nowhere"], "nowhere"),
        ([samples / "run-gelu", "--out", tmp_path / "no" / "file.html"], "cannot be written"),
    ):
        done = klab("report", *arguments)
        assert done.code == 2
        assert sentence in done.err
        assert done.err.count("\n") == 1


def test_without_its_packages_the_command_to_make_it_elsewhere_is_printed(klab, samples, tmp_path):
    done = klab("report", samples / "run-gelu", PYTHONPATH=_without(tmp_path, "plotly"))
    assert done.code == 2
    assert "report.html needs plotly: pip install plotly" in done.err
    assert f"klab report {samples / 'run-gelu'}" in done.err


def test_a_package_that_cannot_be_imported_is_named_and_charts_alone_need_plotly(klab, samples, tmp_path):
    (tmp_path / "plotly").mkdir()
    (tmp_path / "plotly" / "__init__.py").write_text("raise ImportError('it is damaged')")
    path = ":".join([str(tmp_path), *filter(None, sys.path)])
    done = klab("report", samples / "run-gelu", PYTHONPATH=path)
    assert done.code == 2
    assert "needs plotly, which cannot be imported (ImportError: it is damaged): pip install --force-re" in done.err
    assert done.err.count("\n") == 1
    done = klab("report", samples / "check-square", "--out", "-", PYTHONPATH=path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("<!doctype html>")
    assert done.out.endswith("</html>\n")


def test_the_record_is_never_replaced_by_its_report(klab, samples, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(samples / "check-square", run)
    (run / "journal.jsonl").write_text("")
    before = {path: path.read_bytes() for path in run.iterdir()}
    (tmp_path / "link").symlink_to(run)
    for out in (run / "run.json", run / "journal.jsonl", tmp_path / "link" / "run.json", "run/../run/run.json"):
        for more in ([], ["--json"]):
            done = klab("report", run / "run.json", "--out", out, *more)
            assert done.code == 2
            assert "would be lost: name another file" in done.err
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_json_is_written_where_out_says(klab, samples, tmp_path):
    done = klab("report", samples / "check-square", "--json", "--out", "record.json")
    assert done.out == "record: record.json\n"
    text = (tmp_path / "record.json").read_text()
    assert klab("report", samples / "check-square", "--json", "--out", "-").out == text
    assert len(json.loads(text)["results"]) == 7


def test_no_torch_is_imported(klab, samples, tmp_path):
    done = klab("report", samples / "bench-softmax", PYTHONPATH=_without(tmp_path, "torch"))
    assert done.code == 0, done.err


def _without(folder: Path, package: str) -> str:
    """A Python path on which a package cannot be found."""
    (folder / "sitecustomize.py").write_text(f"import sys; sys.modules[{package!r}] = None")
    return ":".join([str(folder), *filter(None, sys.path)])


def test_a_run_ends_with_its_report_and_never_fails_because_of_it(klab, tmp_path):
    arguments = ["bench", "square", "--shape", "8x8", "--impl", "manual", "--rounds", "2", "--seconds", "0.01"]
    done = klab(*arguments, "--only-times", "--out", "mine")
    assert done.out.endswith("record: mine\nreport: mine/report.html\n")
    assert "square" in (tmp_path / "mine" / "report.html").read_text()
    (tmp_path / "blocked" / "report.html" / "x").mkdir(parents=True)
    done = klab(*arguments, "--only-times", "--out", "blocked")
    assert done.code == 0
    assert "no report: blocked/report.html cannot be written" in done.out
    without = klab(*arguments, "--only-times", "--out", "plain", PYTHONPATH=_without(tmp_path, "jinja2"))
    assert without.code == 0
    assert "no report without jinja2: pip install jinja2, or copy the run" in without.out
    assert "klab report plain" in without.out


def test_reports_of_runs_can_be_switched_off(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELLAB_REPORT", "0")
    assert write_report({}, tmp_path).startswith("no report, as KERNELLAB_REPORT is 0: klab report ")
    assert list(tmp_path.iterdir()) == []
