"""A bad implementation does not affect the others; a killed run is readable and can be resumed."""

import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from kernellab.record.reading import load
from support.klab import OPFILES, klab_command, klab_env


def test_every_bad_implementation_is_named_and_the_good_ones_are_timed(klab):
    statuses = {
        "manual": "ok",
        "good-a": "ok",
        "good-b": "ok",
        "raises": "error",
        "wrong-shape": "wrong",
        "wrong-dtype": "wrong",
        "wrong-values": "wrong",
        "zeros": "wrong",
        "mutates": "wrong",
        "mutates-copies": "ok",
        "segfault": "crashed",
        "hangs": "timeout",
        "exits": "crashed",
        "returns-none": "wrong",
    }
    args = ("--impl", ",".join(statuses), "--timeout", "5", "--seconds", "0.3", "--device", "cpu", "--json")
    seen = klab("run", OPFILES / "good_and_bad.py", *args)
    assert seen.code == 1, seen.err
    results = {r["impl"]: r["derived"] for r in seen.record["results"]}
    assert {k: v["status"] for k, v in results.items()} == statuses
    for name, part in {
        "raises": "no luck today (good_and_bad.py:",
        "wrong-shape": "63×128",
        "segfault": "SIGSEGV",
        "hangs": "5 s",
        "exits": "code 0",
        "mutates": "changed its input x",
    }.items():
        assert part in results[name]["reason"]
    for name in ("good-a", "good-b", "mutates-copies"):
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
@f.impl("late-crash")
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


def test_timing_is_repeated_without_an_implementation_that_crashed(klab, tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    args = ("--impl", "manual,torch,late-crash,late-error", "--seconds", "0.1", "--device", "cpu", "--json")
    seen = klab("run", "late.py", *args)
    assert seen.code == 1
    assert seen.result("late-crash")["derived"]["status"] == "crashed"
    assert "SIGABRT" in seen.result("late-crash")["derived"]["reason"]
    late = seen.result("late-error")["derived"]
    assert (late["status"], "tired" in late["reason"]) == ("error", True)
    manual, own_op = (seen.result(n)["times"][0] for n in ("manual", "torch"))
    assert manual["rounds"] == own_op["rounds"]
    assert sorted(set(manual["rounds"])) == list(range(1 + max(manual["rounds"])))


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


def test_changed_global_state_is_reported_and_restored(klab, tmp_path):
    (tmp_path / "state.py").write_text(STATE)
    seen = klab("check", "state.py", "--declared", "--impl", "meddles,good", "--device", "cpu", "--json")
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
    seen = klab("check", "memory.py", "--declared", "--impl", "manual,greedy", "--device", "cpu", "--json")
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


def _wait_until(condition, timeout=60.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def _busy_at_the_second_case(journal: Path) -> bool:
    if not journal.exists():
        return False
    begins = [json.loads(line) for line in journal.read_text().splitlines() if '"begin"' in line]
    return any(e["impl"] == "slow" and e["case"]["dims"]["..."] == [16, 16] for e in begins)


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
    assert seen.code == 1, seen.err  # the file is unchanged and still exceeds its timeout
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


CHANGED = """
import kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8)], dtype=["float32"]))
def f(x):
    return x + NUMBER
"""


def _make_unfinished(run: Path) -> None:
    """Change the journal as if the run had been killed at the last moment."""
    journal = run / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if json.loads(line)["event"] != "complete"))


def test_a_changed_op_is_run_again_on_resume(klab, tmp_path):
    (tmp_path / "changed.py").write_text(CHANGED.replace("NUMBER", "1"))
    args = ("--impl", "manual", "--declared", "--device", "cpu", "--out", "run")
    assert klab("check", "changed.py", *args).code == 0
    _make_unfinished(tmp_path / "run")
    (tmp_path / "changed.py").write_text(CHANGED.replace("NUMBER", "torch"))
    seen = klab("check", "--resume", "run", "--json")
    assert "changed since the run began" in seen.err
    assert seen.result("manual")["derived"]["status"] == "unknown"  # not the earlier result


NASTY = """
import os, time, torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(64, 64)]), cost=lambda x: 1 / 0)
def f(x):
    return x + 1

@f.impl("torch")
def _(x):
    return torch.add(x, 1)

@f.impl("leaves")
def _(x):
    raise SystemExit(3)

def picky(case):
    raise RuntimeError("too picky")

@f.impl("picky", supports=picky)
def _(x):
    return x + 1

@f.impl("threads")
def _(x):
    torch.set_num_threads(3)
    return x + 1

@f.impl("clockmaker")
def _(x):
    time.perf_counter_ns = lambda: 0
    return x + 1

@f.impl("mixed")
def _(x):
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    return x + 1

threads = torch.get_num_threads()

@f.impl("watcher")
def _(x):
    assert torch.get_num_threads() == threads
    return x + 1
"""


def test_nasty_implementations_affect_no_others_in_check_and_in_timing(klab, tmp_path):
    (tmp_path / "nasty.py").write_text(NASTY)
    impls = "manual,torch,leaves,picky,threads,clockmaker,mixed,watcher"
    seen = klab("run", "nasty.py", "--impl", impls, "--seconds", "0.1", "--device", "cpu", "--json")
    results = {r["impl"]: r for r in seen.record["results"]}
    statuses = {k: r["derived"]["status"] for k, r in results.items()}
    assert statuses == {
        **dict.fromkeys(["manual", "torch", "threads", "mixed", "watcher"], "ok"),
        **dict.fromkeys(["leaves", "picky"], "error"),
        "clockmaker": "wrong",
    }
    assert "SystemExit" in results["leaves"]["derived"]["reason"]
    assert "too picky" in results["picky"]["derived"]["reason"]
    notes = {k: " ".join(g["detail"] for g in r["guards"]) for k, r in results.items()}
    assert "number of threads" in notes["threads"]
    assert "replaced time.perf_counter_ns" in notes["clockmaker"]  # restored after its check
    assert results["clockmaker"]["derived"]["reason"] == "while timing: replaced time.perf_counter_ns"
    assert "cost= failed: ZeroDivisionError" in notes["torch"]
    assert all(r["derived"]["time"]["median_us"] > 0 for r in results.values() if r["derived"]["status"] == "ok")


DEADLY_TORCH = """
import os, time, torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 8)]))
def f(x):
    return x + 1

@f.impl("torch")
def _(x):
    os.abort()

@f.impl("good")
def _(x):
    return 1 + x

@kl.op(cases=kl.cases(shape=[(8, 8)]))
def slow(x):
    if x.dtype == torch.float64:
        time.sleep(60)
    return x + 1

@slow.impl("good")
def _(x):
    return 1 + x
"""


def test_a_peer_that_kills_the_worker_is_not_blamed_on_the_implementation(klab, tmp_path):
    (tmp_path / "deadly.py").write_text(DEADLY_TORCH)
    seen = klab("check", "deadly.py:f", "--impl", "good", "--declared", "--device", "cpu", "--json")
    assert [(r["impl"], r["derived"]["status"]) for r in seen.record["results"]] == [("good", "ok")]
    assert seen.result("good")["check"]["peer"]["impl"] == "manual"


def test_a_slow_oracle_makes_the_status_unknown_and_the_exit_code_3(klab, tmp_path):
    (tmp_path / "deadly.py").write_text(DEADLY_TORCH)
    seen = klab("check", "deadly.py:slow", "--impl", "good", "--timeout", "1", "--device", "cpu", "--json")
    assert seen.code == 3
    assert seen.result("good")["derived"]["status"] == "unknown"
    assert "the reference" in seen.result("good")["derived"]["reason"]
    reasons = [trial["reason"] for trial in seen.record["trials"]]  # the battery stops after the third timeout
    assert len(reasons) == 3
    assert "the rest of the battery is not tried" in reasons[-1]


def test_a_file_beside_the_op_does_not_hide_an_installed_module(klab, tmp_path):
    for name in ("triton", "torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hidden')")
    seen = klab("check", "square", "--impl", "torch,triton", "--shape", "8x8", "--device", "cpu", "--json")
    assert seen.code == 0, seen.err


def test_other_versions_or_another_device_are_refused_on_resume(klab, tmp_path):
    assert klab("check", "square", "--impl", "torch", "--shape", "8x8", "--out", "run", "--device", "cpu").code == 0
    journal = tmp_path / "run" / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line["event"] == "machine":
            line["machine"]["key"] = "another"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines if line["event"] != "complete"))
    seen = klab("check", "--resume", "run")
    assert (seen.code, "other versions or on another device" in seen.err) == (2, True)
    assert journal.exists()


def test_cached_ceilings_are_used_until_refresh_ceilings_is_given(klab):
    args = ("bench", "square", "--impl", "torch", "--shape", "8x8", "--quick", "--device", "cpu", "--json")
    cached = klab(*args).record["machine"]["ceilings"]
    assert cached["measured_at"] == "2026-01-01T00:00:00"  # from conftest.py
    measured = klab(*args, "--refresh-ceilings").record["machine"]["ceilings"]
    assert measured["measured_at"] > cached["measured_at"]
    assert measured["copy_gbps"] > 0


def test_two_timing_runs_take_turns(tmp_path):
    """The test holds the lock of the other run until this run reports that it waits."""
    lock = Path(os.environ["KERNELLAB_CACHE"]) / "locks" / "timing-cpu"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as other_run:
        fcntl.flock(other_run, fcntl.LOCK_EX)
        args = ("bench", "square", "--impl", "torch", "--shape", "8x8", "--quick", "--device", "cpu")
        waiting = subprocess.Popen(
            klab_command(*args), cwd=tmp_path, env=klab_env(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        next(line for line in waiting.stderr if "another kernellab run is timing on cpu" in line)
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, "1 result right." in out) == (0, True)


def test_implementations_that_attack_kernellab_itself_fail_alone(klab):
    args = ("--impl", "manual,garbles,[/],forks", "--seconds", "0.1", "--device", "cpu", "--out", "we[/x]ird")
    began = time.monotonic()
    seen = klab("run", OPFILES / "evil.py", *args)
    assert seen.code == 1, seen.err
    assert "garbles  crashed: it broke the connection to kernellab" in seen.out
    assert "forks    crashed: the process exited with code 5" in seen.out
    assert "record: we[/x]ird" in seen.out
    again = klab("run", OPFILES / "evil.py", "--impl", "manual,[/]", "--seconds", "0.1", "--device", "cpu", "--json")
    strict = json.loads(again.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert {r["derived"]["status"] for r in strict["results"]} == {"ok"}
    assert time.monotonic() - began < 60  # the forked child blocked neither the timing lock nor the end of the run


def test_a_where_that_hangs_in_the_battery_is_named_with_its_case(klab, tmp_path):
    (tmp_path / "hangs.py").write_text(
        "import time\nimport kernellab as kl\n\n\n"
        "@kl.op(cases=kl.cases(shape=[(8, 8)]), where=lambda c: c.shape != (33,) or time.sleep(1e5))\n"
        "def f(x):\n    return x * 2\n"
    )
    ran = klab("check", "hangs.py", "--impl", "manual", "--quick", "--timeout", "1")
    assert ran.code == 3
    assert "not judged (manual 1): the op's where= at 33 · float32: did not finish within 5 s" in ran.out
    assert "No trial of the battery could be judged: f manual." in ran.out
