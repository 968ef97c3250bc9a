"""Old runs and unused caches: what is chosen, what stays, and what is removed."""

import os
import time

import pytest

from kernellab.base.paths import cache_dir
from kernellab.history.index import Index, index_file
from kernellab.history.pruning import old_runs, remove_entry, remove_run, unused_cache
from kernellab.history.queries import all_runs
from kernellab.record.journal import Journal
from support.histories import BEGINNING, write_run

DAY = 86400
LONG_AGO = 1_000_000_000


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
    (runs / "gelu-1" / "report.html").write_text("kernellab's own")
    removals = {entry.paths[0].name: entry for entry in old_runs(index, before=time.time())}
    assert removals["gelu-0"].kept == "its folder also holds notes.txt"
    assert remove_run(removals["gelu-0"], index) == "its folder also holds notes.txt"
    assert (runs / "gelu-0" / "notes.txt").read_text() == "mine"
    assert remove_run(removals["gelu-1"], index) is None


def test_nothing_outside_the_folder_of_the_runs_is_removed(index, runs, tmp_path):
    precious = write_run(tmp_path / "precious")
    removals = {entry.paths[0].name: entry for entry in old_runs(index, before=time.time())}
    os.rename(runs / "gelu-0", tmp_path / "moved")  # noqa: PTH104
    (runs / "gelu-0").symlink_to(precious)
    assert remove_run(removals["gelu-0"], index) == "it has changed"
    (runs / "gelu-1" / "artifacts" / "link").symlink_to(precious)
    assert remove_run(removals["gelu-1"], index) is None
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
        ("nvrtc", "old.cubin", LONG_AGO),
        ("nvrtc", "old.ptx", LONG_AGO),
        ("nvrtc", "used.cubin", LONG_AGO),
        ("nvrtc", "used.ptx", time.time()),
        ("ceilings", "machine.json", LONG_AGO),
        ("tuned", "sm_90.toml", LONG_AGO),
    ):
        (cache_dir(folder) / name).write_text("x")
        os.utime(cache_dir(folder) / name, (used, used))
    write_run(tmp_path / "gone" / "a")
    with Index(tmp_path / "gone") as other:
        other.refresh()
    assert names(unused_cache(time.time() - DAY)) == ["old.cubin"]
    (tmp_path / "gone").rename(tmp_path / "away")
    chosen = unused_cache(time.time() - DAY)
    assert names(chosen) == sorted(["old.cubin", index_file(tmp_path / "gone").name])
    assert [remove_entry(removal) for removal in chosen] == [None, None]
    assert sorted(path.name for path in cache_dir("nvrtc").iterdir()) == ["used.cubin", "used.ptx"]
    assert (cache_dir("tuned") / "sm_90.toml").exists()
    assert unused_cache(time.time() - DAY) == []
    assert len(all_runs(index)) == 7
    assert index.file.exists()
