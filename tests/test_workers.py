"""A bad implementation costs only itself; a killed run is readable and can be finished."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from conftest import OPFILES, klab_command, klab_env
from kernellab.running.record import load


def test_every_bad_way_is_named_and_the_good_ones_are_timed(klab):
    seen = klab("run", OPFILES / "good_and_bad.py", "--timeout", "25", "--seconds", "0.3", "--device", "cpu", "--json")
    assert seen.code == 1, seen.err
    results = {r["impl"]: r["derived"] for r in seen.record["results"]}
    assert {k: v["status"] for k, v in results.items()} == {
        "manual": "ok",
        "compile": "ok",
        "good-a": "ok",
        "good-b": "ok",
        "raises": "error",
        "wrong-shape": "wrong",
        "wrong-dtype": "wrong",
        "wrong-values": "wrong",
        "zeros": "wrong",
        "mutates": "wrong",
        "segfault": "crashed",
        "hangs": "timeout",
        "exits": "crashed",
        "returns-none": "wrong",
    }
    for name, part in {
        "raises": "no luck today (good_and_bad.py:",
        "wrong-shape": "63×128",
        "segfault": "SIGSEGV",
        "hangs": "25 s",
        "exits": "code 0",
        "mutates": "changed its input x",
    }.items():
        assert part in results[name]["reason"]
    for name in ("good-a", "good-b"):
        assert results[name]["time"]["rounds"] >= 10
        assert results[name]["time"]["median_us"] > 0
    assert all(v["time"] is None for k, v in results.items() if v["status"] != "ok")


LATE = """
import os, torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8)]))
def f(x):
    return x + 1

@f.impl("torch")
def _(x):
    return torch.add(x, 1)

calls = 0
@f.impl("late-death")
def _(x):
    global calls
    calls += 1
    if calls > 6:
        os.abort()
    return x + 1

more = 0
@f.impl("late-error")
def _(x):
    global more
    more += 1
    if more > 6:
        raise RuntimeError("tired")
    return x + 1
"""


def test_a_death_while_timing_is_repeated_without_the_culprit(klab, tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    args = ("--impl", "manual,torch,late-death,late-error", "--seconds", "0.1", "--device", "cpu", "--json")
    seen = klab("run", "late.py", *args)
    assert seen.code == 1
    assert seen.result("late-death")["derived"]["status"] == "crashed"
    assert "SIGABRT" in seen.result("late-death")["derived"]["reason"]
    late = seen.result("late-error")["derived"]
    assert (late["status"], "tired" in late["reason"]) == ("error", True)
    manual, torchs = (seen.result(n)["times"][0] for n in ("manual", "torch"))
    assert manual["rounds"] == torchs["rounds"] == list(range(len(manual["rounds"])))


STATE = """
import torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8)]))
def f(x):
    return x + 1

@f.impl("meddles")
def _(x):
    torch.set_float32_matmul_precision("medium")
    torch.nn.functional.gelu = None
    return x + 1

@f.impl("good")
def _(x):
    assert torch.get_float32_matmul_precision() == "highest" and torch.nn.functional.gelu is not None
    return x + 1
"""


def test_changed_global_state_is_reported_and_put_back(klab, tmp_path):
    (tmp_path / "state.py").write_text(STATE)
    seen = klab("check", "state.py", "--impl", "meddles,good", "--device", "cpu", "--json")
    details = " ".join(g["detail"] for g in seen.result("meddles")["guards"])
    assert "float32 matmul precision from highest to medium" in details
    assert "replaced torch.nn.functional.gelu" in details
    assert seen.result("good")["derived"]["status"] == "ok"


MEMORY = """
import torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8)]))
def f(x):
    return x + 1

@f.impl("greedy")
def _(x):
    return torch.ones(1 << 46)[0] + x
"""


def test_running_out_of_memory_is_its_own_status(klab, tmp_path):
    (tmp_path / "memory.py").write_text(MEMORY)
    seen = klab("check", "memory.py", "--impl", "manual,greedy", "--device", "cpu", "--json")
    assert seen.result("greedy")["derived"]["status"] == "oom"
    assert seen.result("manual")["derived"]["status"] == "ok"


SLOW = """
import subprocess, time, torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8), (16, 16), (32, 32)]))
def f(x):
    return x + 1

@f.impl("slow")
def _(x):
    if x.shape[0] == 16:
        subprocess.Popen(["sleep", "300"])  # a helper that must not outlive the run
        time.sleep(TAKES)
    return x + 1
"""


def _slow_run(folder: Path, takes: str) -> list[str]:
    (folder / "slow.py").write_text(SLOW.replace("TAKES", takes))
    return klab_command(
        *("run", "slow.py", "--impl", "manual,slow", "--seconds", "0.05", "--device", "cpu", "--out", "run"),
        *("--timeout", "10"),
    )


def _wait_until(true, timeout=60.0):
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def _busy_at_the_second_case(journal: Path) -> bool:
    if not journal.exists():
        return False
    begun = [json.loads(line) for line in journal.read_text().splitlines() if '"begin"' in line]
    return any(e["impl"] == "slow" and e["case"]["dims"]["..."] == [16, 16] for e in begun)


def _family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_kill_9_leaves_a_record_and_no_orphans_and_resume_finishes(klab, tmp_path):
    parent = subprocess.Popen(_slow_run(tmp_path, "60"), cwd=tmp_path, env=klab_env(), stderr=subprocess.DEVNULL)
    journal = tmp_path / "run" / "journal.jsonl"
    _wait_until(lambda: _busy_at_the_second_case(journal))
    _wait_until(lambda: any("sleep" in p.name() for p in _family(parent.pid)))
    family = _family(parent.pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    _wait_until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family), 15)

    before = load(tmp_path / "run")
    assert before["complete"] is False
    first = [r for r in before["results"] if r["case"]["dims"]["..."] == [8, 8]]
    assert [r["times"][0]["status"] for r in first] == ["ok", "ok"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["results"]

    seen = klab("run", "--resume", "run", "--json", timeout=200)
    assert seen.code == 1, seen.err  # the file is as it was, and still takes longer than its timeout
    after = seen.record
    assert after["complete"] is True
    kept = [r for r in after["results"] if r["case"]["dims"]["..."] == [8, 8]]
    assert [r["times"] for r in kept] == [r["times"] for r in first]
    slow = next(r for r in after["results"] if r["impl"] == "slow" and r["case"]["dims"]["..."] == [16, 16])
    assert slow["derived"]["status"] == "timeout"


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_was_measured(tmp_path, sig):
    parent = subprocess.Popen(
        _slow_run(tmp_path, "60"), cwd=tmp_path, env=klab_env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    _wait_until(lambda: _busy_at_the_second_case(tmp_path / "run" / "journal.jsonl"))
    family = _family(parent.pid)
    parent.send_signal(sig)
    out, _ = parent.communicate(timeout=30)
    assert parent.returncode == 130
    assert b"f \xc2\xb7 8\xc3\x978" in out
    assert b"--resume" in out
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)
    assert load(tmp_path / "run")["results"][0]["times"][0]["status"] == "ok"


def test_a_changed_op_is_done_again_on_resume(klab, tmp_path):
    parent = subprocess.Popen(_slow_run(tmp_path, "60"), cwd=tmp_path, env=klab_env(), stderr=subprocess.DEVNULL)
    _wait_until(lambda: _busy_at_the_second_case(tmp_path / "run" / "journal.jsonl"))
    parent.kill()
    parent.wait()
    _slow_run(tmp_path, "0")
    seen = klab("run", "--resume", "run", "--json")
    assert seen.code == 0, seen.err
    assert "changed since the run began" in seen.err
    assert len(seen.record["results"]) == 6
