"""`klab history`: trends, change points with their commits, exports, and runs that cannot be read."""

import csv
import io
import json
import random
import shutil

import pytest

from support.histories import MACHINE, commit_name, write_run
from support.hostile_records import TEXTS, hostile_records
from support.klab import run_klab

COMMITS, CHANGED = 40, 25


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a run of each commit; at one of them `triton` becomes slower."""
    folder = tmp_path_factory.mktemp("project")
    draw = random.Random(1)
    for number in range(COMMITS):
        times = {"manual": 200.0, "triton": 30.0 * (1.03 if number >= CHANGED else 1)}
        noisy = {impl: time * (1 + draw.gauss(0, 0.003)) for impl, time in times.items()}
        write_run(folder / "runs" / f"{number:03}-gelu", noisy, number=number)
    write_run(folder / "runs" / "softmax", {"torch": 5.0}, op="softmax", branch="feature", machine="AMD EPYC 2 threads")
    return folder


@pytest.fixture
def history(project):
    return lambda *words: run_klab("history", *words, cwd=project)


def test_the_trend_of_an_op_shows_its_change_and_the_commit(history):
    done = history("gelu")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"gelu on {MACHINE}\n")
    (triton,) = (line for line in done.out.splitlines() if "triton  forward" in line)
    assert "▁" in triton
    assert triton.index("▁") < triton.index("█")
    assert "triton at N=8 · float32 takes 3." in done.out
    assert "% longer" in done.out
    assert f"since {commit_name(CHANGED)[:10]} (2026-01-26, main): 30 µs → 30.9" in done.out
    assert "manual at" not in done.out


def test_without_an_op_all_ops_and_the_latest_runs_are_shown(history):
    lines = history().out.splitlines()
    cells = {line.split()[0]: line.split() for line in lines if line.startswith((" gelu", " softmax"))}
    assert cells["gelu"][-6:] == [str(COMMITS), str(COMMITS), "2026-02-09", "1", "–", "–"]
    assert cells["softmax"][-6:] == ["1", "1", "2026-01-01", "–", "–", "–"]
    assert any(line.startswith(" 039-gelu") and "complete" in line and "klab run gelu" in line for line in lines)
    assert lines[-1] == f"{COMMITS + 1} runs in runs. klab history OP shows how its times changed."


def test_json_has_every_trend_with_its_commits_and_changes(history):
    document = json.loads(history("gelu", "--json").out)
    trends = {trend["impl"]: trend for trend in document["trends"]}
    assert trends.keys() == {"manual", "triton"}
    assert len(trends["manual"]["commits"]) == COMMITS
    assert trends["manual"]["changes"] == []
    (change,) = trends["triton"]["changes"]
    assert (change["verdict"], change["commit"]) == ("slower", commit_name(CHANGED))
    assert change["low"] <= 1.03 <= change["high"]
    assert change["commit"] in change["candidates"]
    assert trends["triton"]["latest"]["commit"] == commit_name(COMMITS - 1)
    assert len(document["runs"]) == COMMITS + 1


def test_an_export_has_one_row_for_each_measurement(history, project):
    rows = list(csv.DictReader(io.StringIO(history("--export", "csv").out)))
    assert len(rows) == 2 * COMMITS + 1
    assert {row["op"] for row in rows} == {"gelu", "softmax"}
    assert rows == list(csv.DictReader(io.StringIO(history("--export", "csv", "--rebuild").out)))
    done = history("gelu", "--export", "json", "--out", "out.json")
    assert done.out == f"out.json: {2 * COMMITS} measurements\n"
    exported = json.loads((project / "out.json").read_text())
    assert exported[0]["commit"] == commit_name(0)
    assert exported[0]["median_us"] == pytest.approx(200, rel=0.02)


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        (["--branch", "feature"], {"softmax"}),
        (["--machine", "h200"], {"gelu"}),
        (["--impl", "tri*"], {"gelu"}),
        (["--dtype", "fp16"], set()),
        (["--since", "2026-01-20"], {"gelu"}),
    ],
)
def test_filters(history, options, ops):
    assert {trend["op"] for trend in json.loads(history("--json", *options).out)["trends"]} == ops


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gel"], "no time of gel in runs: did you mean gelu?"),
        (["gelu", "--impl", "cuda"], "no run of gelu in runs that these options ask for"),
        (["--runs", "nowhere"], "no runs: there is no folder nowhere"),
        (["--since", "yesterday"], "cannot read --since 'yesterday': write 2026-01-31, or 30d for 30 days ago"),
        (["--out", "x"], "--out names the file of an export: --export csv"),
        (["--export", "xml"], "--export xml: known: csv, json"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused_in_a_sentence(history, words, message):
    done = history(*words)
    assert (done.code, done.out, done.err) == (2, "", f"klab: {message}\n")


def test_an_empty_folder_of_runs_has_no_runs(klab, tmp_path):
    (tmp_path / "runs").mkdir()
    assert klab("history").out.endswith("0 runs in runs. klab history OP shows how its times changed.\n")
    assert klab("history", "--export", "json").out == "[]\n"


def test_hostile_runs_are_shown_harmlessly(klab, tmp_path):
    sound = json.loads((write_run(tmp_path / "sound", {"manual": 2.0, "triton": 1.0}) / "run.json").read_text())
    records = hostile_records(sound)
    names = [f"{name} in every text" for name in TEXTS] + ["a sample of NaN", "a list", "a pipe", "cut after 50 %"]
    for number, name in enumerate(names):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        records[name](tmp_path / "runs" / str(number))
    shown = [klab("history"), klab("history", "--export", "csv"), klab("history", "--json")]
    ops = {trend["op"] for trend in json.loads(shown[-1].out)["trends"]}
    assert len(ops) > 15
    shown += [klab("history", op) for op in ops if "\x1b" in op or "[red]" in op or "\u202e" in op]
    assert len(shown) == 5
    for done in shown:
        assert (done.code, done.err) == (0, "")
        assert "\x1b" not in done.out
        assert "\u202e" not in done.out
    assert "run.json is damaged" in shown[0].out


def test_a_run_is_in_the_history_until_its_folder_is_removed(klab, tmp_path):
    bench = ("--impl", "torch", "--device", "cpu", "--shape", "64x64", "--only-times", "--seconds", "0.05")
    assert klab("bench", "gelu", *bench).code == 0
    (run,) = (tmp_path / "runs").iterdir()
    (trend,) = json.loads(klab("history", "gelu", "--json").out)["trends"]
    assert (trend["impl"], len(trend["commits"])) == ("torch", 1)
    assert trend["latest"]["folder"] == str(run)
    shutil.rmtree(run)
    assert json.loads(klab("history", "--json").out)["runs"] == []


def test_old_runs_are_shown_first_and_removed_on_request(klab, tmp_path):
    for number in range(3):
        write_run(tmp_path / "runs" / f"{number}", number=number)
    (tmp_path / "runs" / "0" / "notes.txt").write_text("mine")
    shown = klab("history", "--prune", "--keep", "1")
    assert shown.code == 0
    assert shown.out.splitlines()[0].startswith("runs/0 ")
    assert shown.out.splitlines()[0].endswith("  stays: its folder also holds notes.txt")
    assert shown.out.splitlines()[-1].startswith("1 run, ")
    assert shown.out.endswith("Nothing was removed: --yes removes what is listed\n")
    removed = klab("history", "--prune", "--older", "2026-01-31", "--keep", "1", "--yes", "--json")
    document = json.loads(removed.out)
    assert (removed.code, document["removed"]) == (0, True)
    assert [entry["kept"] is None for entry in document["entries"]] == [False, True]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["0", "2"]
    assert klab("history", "--prune-caches", "--yes").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prune"], "--prune: which runs? --older 90d, or --keep 20 of each op and machine, or both"),
        (["--yes"], "--yes goes with --prune or --prune-caches"),
        (["--prune", "--keep", "1", "--impl", "a"], "--impl does not choose what is removed"),
        (["--prune", "--prune-caches"], "--prune removes runs and --prune-caches compiled code: give one of them"),
        (["--prune", "--keep", "-1"], "--keep -1: must be at least 0"),
    ],
)
def test_a_removal_that_is_not_clear_is_refused(history, words, message):
    done = history(*words)
    assert (done.code, done.out, done.err) == (2, "", f"klab: {message}\n")
