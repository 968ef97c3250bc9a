"""Old runs and unused caches: what is chosen, what stays, and what is removed."""

import json
import os
import tarfile
import time
from pathlib import Path

import pytest

from kernellab.base.paths import cache_dir
from kernellab.history.index import Index, index_file
from kernellab.history.pruning import old_runs, remove_entry, remove_run, unused_cache
from kernellab.history.queries import all_runs
from kernellab.record.journal import Journal
from support.histories import BEGINNING, write_run

DAY = 86400
SAMPLES = Path(__file__).parents[1] / "samples"
LONG_AGO = 1_000_000_000
OLD, USED = "0" * 24, "1" * 24  # fingerprints


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


@pytest.fixture
def index(runs):
    for number in range(5):
        write_run(runs / f"gelu-{number}", number=number)
    write_run(runs / "softmax", op="softmax", branch="feature")
    write_run(runs / "elsewhere", machine="AMD EPYC 2 threads")
    with Index(runs) as index:
        index.refresh()
        yield index


def names(removals):
    return sorted(removal.paths[0].name for removal in removals)


def test_runs_are_chosen_by_age_and_the_last_of_each_op_and_machine_can_be_kept(index):
    before = BEGINNING.timestamp() + 3 * DAY
    assert names(old_runs(index, before=before)) == ["elsewhere", "gelu-0", "gelu-1", "gelu-2", "softmax"]
    assert names(old_runs(index, before=before, keep=1)) == ["gelu-0", "gelu-1", "gelu-2"]
    assert names(old_runs(index, before=before, keep=3)) == ["gelu-0", "gelu-1"]
    assert names(old_runs(index, before=None, keep=2)) == ["gelu-0", "gelu-1", "gelu-2"]
    assert names(old_runs(index, before=before, branch="feature")) == ["softmax"]
    assert names(old_runs(index, before=before, machine="epyc")) == ["elsewhere"]


def test_a_removed_run_is_gone_from_the_disk_and_the_index(index, runs):
    (removal,) = [entry for entry in old_runs(index, before=None, keep=4) if entry.paths[0].name == "gelu-0"]
    assert removal.bytes > 1000
    assert remove_run(removal, index) is None
    assert not (runs / "gelu-0").exists()
    assert index.refresh() == (0, 1)


def test_a_run_that_is_being_written_stays(index, runs):
    journal = Journal(runs / "gelu-0")
    removals = {entry.paths[0].name: entry for entry in old_runs(index, before=time.time())}
    assert remove_run(removals["gelu-0"], index) == "it is being written"
    journal.close()
    assert remove_run(removals["gelu-0"], index) is None


def test_files_that_kernellab_did_not_write_are_not_removed(index, runs):
    (runs / "gelu-0" / "notes.txt").write_text("mine")
    for own in ("report.html", "curves-gelu-N-float32.csv", "artifacts/worker-0-native.log", ".run.json.4711"):
        (runs / "gelu-1" / own).write_text("kernellab's own")
    removals = {entry.paths[0].name: entry for entry in old_runs(index, before=time.time())}
    assert removals["gelu-0"].kept == "its folder also holds notes.txt"
    assert remove_run(removals["gelu-0"], index) == "its folder also holds notes.txt"
    assert (runs / "gelu-0" / "notes.txt").read_text() == "mine"
    assert remove_run(removals["gelu-1"], index) is None


@pytest.mark.parametrize(
    "mine",
    [
        "artifacts/my-thesis.md",
        "artifacts/worker-notes.log",
        "artifacts/inner/run.json",
        "report-draft.html",
        "verify-me.txt",
        "verify-1/notes.txt",
        "curves-mine.csv",
        "curves-mine/data.csv",
        ".git/config",
    ],
)
def test_a_file_of_anybody_else_in_a_runs_folder_keeps_the_run(index, runs, mine):
    (runs / "gelu-0" / mine).parent.mkdir(exist_ok=True)
    (runs / "gelu-0" / mine).write_text("mine")
    removals = {entry.paths[0].name: entry for entry in old_runs(index, before=time.time())}
    folder, _, _ = mine.partition("/")
    assert removals["gelu-0"].kept.startswith(f"its folder also holds {folder}")
    assert remove_run(removals["gelu-0"], index) == removals["gelu-0"].kept
    assert (runs / "gelu-0" / mine).read_text() == "mine"
    assert (runs / "gelu-0" / "run.json").exists()


def test_a_folder_that_holds_no_run_stays_whatever_its_files_are_called(runs):
    for name, file, text in (
        ("program", "run.json", '{"speed": 3}'),
        ("diary", "journal.jsonl", "Dear diary\n"),
        ("torn", "journal.jsonl", ""),
    ):
        (runs / name).mkdir(parents=True)
        (runs / name / file).write_text(text)
    with Index(runs) as index:
        index.refresh()
        removals = old_runs(index, before=time.time() + DAY)
        assert {removal.kept for removal in removals} == {"its record cannot be read"}
        assert [remove_run(removal, index) for removal in removals] == ["its record cannot be read"] * 3
    assert len(list(runs.glob("*/*"))) == 3


def test_a_file_that_was_added_after_a_run_was_chosen_keeps_it(index, runs):
    (removal,) = [entry for entry in old_runs(index, before=None, keep=4) if entry.paths[0].name == "gelu-0"]
    (runs / "gelu-0" / "late.txt").write_text("mine")
    assert remove_run(removal, index) == "its folder also holds late.txt"


def test_runs_with_everything_that_kernellab_writes_can_be_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    for name in ("records_h200", "records_cpu"):
        with tarfile.open(SAMPLES / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / "runs" / name, filter="data")
    verified = write_run(tmp_path / "runs" / "tuned")
    write_run(verified / "verify-1")
    trace = {"collected": [{"name": "train", "traces": ["train.json"]}]}
    (verified / "profile.json").write_text(json.dumps(trace))
    for name in (
        "train.json",
        "train.html",
        "train-cpu.svg",
        "train.speedscope.json",
        "sanitize-gelu-triton-memcheck.txt",
    ):
        (verified / "artifacts" / name).write_text("kernellab's own")
    with Index(tmp_path / "runs") as index:
        index.refresh()
        removals = old_runs(index, before=time.time() + DAY)
        assert [remove_run(removal, index) for removal in removals] == [None] * len(removals)
    assert len(removals) > 8
    assert list((tmp_path / "runs").iterdir()) == []


def test_nothing_outside_the_folder_of_the_runs_is_removed(index, runs, tmp_path):
    precious = write_run(tmp_path / "precious")
    removals = {entry.paths[0].name: entry for entry in old_runs(index, before=time.time())}
    os.rename(runs / "gelu-0", tmp_path / "moved")  # noqa: PTH104
    (runs / "gelu-0").symlink_to(precious)
    assert remove_run(removals["gelu-0"], index) == "it has changed"
    (runs / "gelu-1" / "artifacts" / "link").symlink_to(precious)
    assert remove_run(removals["gelu-1"], index) == "its folder also holds artifacts/link"
    assert (precious / "run.json").exists()


def test_an_empty_folder_of_removed_runs_goes_with_them(runs):
    write_run(runs / "nightly" / "monday")
    with Index(runs) as index:
        index.refresh()
        (removal,) = old_runs(index, before=time.time())
        assert remove_run(removal, index) is None
    assert runs.exists()
    assert list(runs.iterdir()) == []


def test_compiled_code_that_was_not_used_and_indices_without_runs_are_chosen(index, runs, tmp_path):
    for folder, name, used in (
        ("nvrtc", f"{OLD}.cubin", LONG_AGO),
        ("nvrtc", f"{OLD}.ptx", LONG_AGO),
        ("nvrtc", f"{USED}.cubin", LONG_AGO),
        ("nvrtc", f"{USED}.ptx", time.time()),
        ("nvrtc", "thesis.ptx", LONG_AGO),
        ("ceilings", "machine.json", LONG_AGO),
        ("tuned", "sm_90.toml", LONG_AGO),
    ):
        (cache_dir(folder) / name).write_text("x")
        os.utime(cache_dir(folder) / name, (used, used))
    write_run(tmp_path / "gone" / "a")
    with Index(tmp_path / "gone") as other:
        other.refresh()
    assert names(unused_cache(time.time() - DAY)) == [f"{OLD}.cubin"]
    (tmp_path / "gone").rename(tmp_path / "away")
    chosen = unused_cache(time.time() - DAY)
    assert names(chosen) == sorted([f"{OLD}.cubin", index_file(tmp_path / "gone").name])
    assert [remove_entry(removal) for removal in chosen] == [None, None]
    assert sorted(path.name for path in cache_dir("nvrtc").iterdir()) == [f"{USED}.cubin", f"{USED}.ptx", "thesis.ptx"]
    assert (cache_dir("tuned") / "sm_90.toml").exists()
    assert unused_cache(time.time() - DAY) == []
    assert len(all_runs(index)) == 7
    assert index.file.exists()


def test_a_folder_in_the_cache_with_anything_else_is_not_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path))
    code = "c" * 52
    for name in (
        f"inductor/ab/{code}.py",
        f"inductor/cd/{code}.main.so",
        "inductor/cd/data.csv",
        "inductor/project/main.py",
        "extensions/mine/build.ninja",
        "extensions/yours/build.ninja",
        "extensions/yours/notes.md",
        f"cpp/gelu-{OLD}.so",
        "cpp/libmine.so",
        "history/library.sqlite",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (LONG_AGO, LONG_AGO))
    chosen = unused_cache(time.time() + DAY)
    assert names(chosen) == ["ab", f"gelu-{OLD}.so", "mine"]
    (tmp_path / "inductor" / "ab" / "late.txt").write_text("mine")
    assert [remove_entry(removal) for removal in chosen].count("it has changed") == 1
    assert (tmp_path / "inductor" / "ab" / f"{code}.py").exists()
    assert not (tmp_path / "extensions" / "mine").exists()
