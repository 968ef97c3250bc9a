"""Records that earlier versions of kernellab wrote, on a CPU and on an H200, are still read."""

import json
import re
import tarfile

import pytest

from kernellab.record.merge import merge
from kernellab.record.reading import load
from kernellab.record.verdict import derive
from support.klab import HERE

MACHINES = ("cpu", "h200")
RUNS = ("run-gelu", "bench-softmax", "check-square", "explain-softmax", "cell-1", "cell-2", "interrupted")


@pytest.fixture(scope="module", params=MACHINES)
def records(request, tmp_path_factory):
    """The folder with the runs of one machine."""
    folder = tmp_path_factory.mktemp(request.param)
    with tarfile.open(HERE / "samples" / f"records_{request.param}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("run", RUNS)
def test_journal_and_run_json_give_the_same_record(records, run):
    assert load(records / run) == load(records / run / "run.json")
    assert load(records / run)["peers"] == {}  # they were written before there were any
    assert derive(load(records / run))["results"]


@pytest.mark.parametrize("run", ["run-gelu", "bench-softmax", "explain-softmax"])
def test_old_records_are_explained(klab, records, run):
    done = klab("explain", records / run)
    assert done.code == 0, done.err
    assert "roofline" in done.out


def test_sweeps_of_old_records_are_drawn(klab, records, tmp_path):
    done = klab("curves", records / "bench-softmax", "--out", tmp_path / "curves")
    assert done.code == 0, done.err
    assert list((tmp_path / "curves").glob("*.csv"))


def test_cells_of_old_records_are_merged(records, tmp_path):
    merged = merge([records / "cell-1", records / "cell-2"], tmp_path / "merged", ["klab", "merge"])
    sizes = [r["case"]["dims"]["N"] for r in merged["results"] if r["impl"] == "torch"]
    assert len(sizes) > 1
    assert sizes == sorted(sizes)
    assert merged["complete"]


def test_an_interrupted_run_is_not_resumed_on_another_machine(klab, records):
    journal = records / "interrupted" / "journal.jsonl"
    # The sample for the CPU may come from this machine.
    journal.write_text(re.sub(r'"key": "\w+"', '"key": "another machine"', journal.read_text()))
    done = klab("bench", "--resume", records / "interrupted")
    assert done.code == 2
    assert "was begun with other versions or on another device" in done.err or "--device cuda" in done.err


def test_a_record_that_lacks_a_field_is_refused_with_a_sentence(klab, records, tmp_path):
    record = json.loads((records / "run-gelu" / "run.json").read_text())
    del record["results"][0]["case"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    done = klab("explain", tmp_path / "run.json")
    assert done.code == 2
    assert "is damaged: results[0] has no `case`" in done.err
    assert "Traceback" not in done.err
