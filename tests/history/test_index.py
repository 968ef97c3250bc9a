"""The index of runs: read from their folders, kept by several processes at once, made again where it is damaged."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from kernellab.base.errors import UserError
from kernellab.history import index as index_module
from kernellab.history.index import Index, add_run, index_file, index_files
from kernellab.history.queries import Filters, all_runs, points
from kernellab.record.journal import Journal
from support.histories import BEGINNING, MACHINE, commit_name, write_run
from support.hostile_records import hostile_records
from support.klab import HERE, klab_env


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def listed(runs):
    """The state of each run by its folder's name, after a refresh."""
    with Index(runs) as index:
        index.refresh()
        return {str(run.folder.relative_to(runs)): run.state for run in all_runs(index)}


def test_an_index_knows_where_when_and_of_what_commit_each_run_is(runs):
    write_run(runs / "a", {"manual": 20.0, "triton": 10.0}, number=3)
    with Index(runs) as index:
        assert index.refresh() == (1, 0)
        (run,) = all_runs(index)
        assert (run.folder, run.state, run.problem) == (runs / "a", "complete", None)
        assert (run.commit, run.branch, run.machine) == (commit_name(3), "main", MACHINE)
        assert run.committed == BEGINNING.timestamp() + 3 * 86400
        assert run.time == run.committed + 1800
        lines = {point.measurement.impl: point.measurement for point in points(index, Filters(op="gelu"))}
        assert lines["triton"].median_us == pytest.approx(10.0, rel=0.001)
        assert lines["triton"].low_us <= lines["triton"].median_us <= lines["triton"].high_us
        assert lines["manual"].median_us == pytest.approx(20.0, rel=0.001)
        assert (lines["triton"].label, lines["triton"].rounds, lines["triton"].is_main) == ("N=8 · float32", 12, True)


def test_a_refresh_reads_only_what_is_new_or_changed_and_drops_what_vanished(runs):
    for name in "abc":
        write_run(runs / name)
    with Index(runs) as index:
        assert index.refresh() == (3, 0)
        assert index.refresh() == (0, 0)
        shutil.rmtree(runs / "a")
        (runs / "b" / "journal.jsonl").open("a").write('{"event": "complete"}\n')
        write_run(runs / "d")
        assert index.refresh() == (2, 1)
        assert [run.folder.name for run in all_runs(index)] == ["b", "c", "d"]
        assert len(list(points(index, Filters()))) == 3  # measurements of vanished runs have gone with them
        assert index.rebuild() == (3, 0)


def test_runs_lie_in_folders_of_their_own_but_links_are_not_followed(runs, tmp_path):
    write_run(runs / "nightly" / "monday")
    write_run(tmp_path / "elsewhere" / "a")
    (runs / "link").symlink_to(tmp_path / "elsewhere")
    (runs / "round").symlink_to(runs)
    assert listed(runs) == {"nightly/monday": "complete"}


def test_a_folder_name_that_is_no_text_is_indexed(runs):
    write_run(runs / os.fsdecode(b"\xff\xfe run"))
    assert list(listed(runs).values()) == ["complete"]


def test_a_missing_folder_of_runs_has_no_runs(tmp_path):
    assert listed(tmp_path / "nowhere") == {}


def test_a_run_in_progress_is_running_until_its_process_ends(runs):
    write_run(runs / "a", complete=False)
    journal = Journal(runs / "a")
    assert listed(runs) == {"a": "running"}
    journal.close()
    assert listed(runs) == {"a": "unfinished"}


def test_a_half_written_line_of_a_run_in_progress_is_no_problem(runs):
    write_run(runs / "a", complete=False)
    with (runs / "a" / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"event": "round", "op": "ge')
    assert listed(runs) == {"a": "unfinished"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b"this is not a database" * 1000),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:3000]),
        lambda file: file.write_bytes(file.read_bytes()[:4096] + random.Random(0).randbytes(40_000)),
    ],
    ids=["no database", "empty", "cut", "overwritten"],
)
def test_a_damaged_index_is_made_again(runs, damage):
    for number in range(5):
        write_run(runs / str(number), number=number)
    listed(runs)
    damage(index_file(runs))
    assert listed(runs) == dict.fromkeys("01234", "complete")


def test_an_index_of_another_version_is_made_again(runs, monkeypatch):
    write_run(runs / "a")
    with Index(runs) as index:
        assert index.refresh() == (1, 0)
    monkeypatch.setattr(index_module, "RULES", index_module.RULES + 1)
    with Index(runs) as index:
        assert index.refresh() == (1, 0)


def test_the_index_lies_in_the_cache_and_nothing_is_added_to_the_folder_of_runs(runs, tmp_path):
    write_run(runs / "a")
    listed(runs)
    assert [path.name for path in runs.iterdir()] == ["a"]
    assert index_files() == [index_file(runs)]
    assert (tmp_path / "cache") in index_file(runs).parents


def test_adding_a_run_never_fails(runs, tmp_path, monkeypatch):
    write_run(runs / "a")
    add_run(runs / "a", runs)
    add_run(runs / "missing", runs)
    add_run(write_run(tmp_path / "elsewhere"), runs)
    with Index(runs) as index:
        assert [run.folder.name for run in all_runs(index)] == ["a"]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "file"))
    add_run(runs / "a", runs)


def test_an_index_that_cannot_be_opened_is_refused_in_a_sentence(runs):
    index_file(runs).with_suffix(".lock").mkdir()
    with pytest.raises(UserError, match=r"the index of runs, .*, cannot be used: .* Set KERNELLAB_CACHE"):
        Index(runs)
    index_file(runs).with_suffix(".lock").rmdir()
    index_file(runs).mkdir()
    with pytest.raises(UserError, match="unable to open database file"):
        Index(runs)


def test_a_damaged_index_can_be_rebuilt(runs):
    for number in range(20):
        write_run(runs / str(number), number=number)
    with Index(runs) as index:
        index.refresh()
        index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = index.file.read_bytes()
        index.file.write_bytes(content[:4096] + random.Random(0).randbytes(len(content) - 4096))
        assert index.rebuild().read == 20
        assert len(all_runs(index)) == 20


def test_hostile_runs_are_listed_with_their_problem_and_the_others_work(runs, tmp_path):
    sound = json.loads((write_run(tmp_path / "sound", {"manual": 2.0, "triton": 1.0}) / "run.json").read_text())
    large = ("fifty million opened lists", "fifty million opened objects")
    records = {name: write for name, write in hostile_records(sound).items() if name not in large}
    for number, write in enumerate(records.values()):
        (runs / str(number)).mkdir()
        write(runs / str(number))
    write_run(runs / "sound")
    states = listed(runs)
    assert len(states) == len(records) + 1
    assert states["sound"] == "complete"
    unreadable = [name for name, state in states.items() if state == "unreadable"]
    assert len(unreadable) >= 35
    with Index(runs) as index:
        assert index.refresh() == (0, 0)  # what cannot be read is not read again
        problems = {run.folder.name: run.problem for run in all_runs(index)}
    assert all(problems[name] and problems[name].isprintable() for name in unreadable)


WRITE = """
import sys
from pathlib import Path
from kernellab.history.index import add_run
from support.histories import write_run
runs, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    add_run(write_run(runs / f"{name}-{number:03}", number=number), runs)
    print(number, flush=True)
"""


def test_two_processes_write_runs_at_once_and_one_is_killed_and_none_is_lost(runs):
    environment = klab_env()
    environment["PYTHONPATH"] += os.pathsep + str(HERE)
    command = [sys.executable, "-c", WRITE, str(runs)]
    first, second = (
        subprocess.Popen([*command, name, "25"], env=environment, stdout=subprocess.PIPE, text=True) for name in "ab"
    )
    for _ in range(10):
        first.stdout.readline()
    time.sleep(random.random() / 100)
    first.send_signal(signal.SIGKILL)
    written = 10 + len(first.stdout.readlines())
    assert second.wait(60) == 0
    with Index(runs) as index:
        assert index.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        before = {run.folder.name: run.state for run in all_runs(index)}
    assert [before[f"b-{number:03}"] for number in range(25)] == ["complete"] * 25
    assert sum(name.startswith("a") for name in before) in (written, written + 1)
    states = listed(runs)
    finished = [name for name, state in states.items() if state == "complete" and name.startswith("a")]
    assert len(finished) in (written, written + 1)
    assert set(states.values()) <= {"complete", "unfinished", "unreadable"}
    assert sum(state != "complete" for state in states.values()) <= 1
