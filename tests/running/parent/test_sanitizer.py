"""Implementations under a replacement for compute-sanitizer: everything except the GPU and the tool is real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernellab.record import verdict
from kernellab.record.batteries import sanitizer_verdicts
from kernellab.reporting.sentences import sanitizer
from kernellab.reporting.terminal import sanitizer as report
from kernellab.reporting.text.console import console
from kernellab.running.parent.sanitizer import impls_to_sanitize
from kernellab.sanitizer.selection import MAX_TRIALS
from support.klab import HERE, klab_env
from support.sanitizer import block, install_standin, run_under, sample


@pytest.fixture
def standin(tmp_path):
    return install_standin(tmp_path)


def test_a_clean_implementation_is_ok(standin, tmp_path, capsys):
    entry, progress = run_under(standin, tmp_path, "python-fine")
    assert (entry["status"], entry["exit"], entry["unfinished"], entry["findings"]) == ("ok", 0, None, [])
    assert 10 <= entry["cases"] <= MAX_TRIALS
    assert progress[-1] == (entry["planned"], entry["planned"])
    text = (tmp_path / "run" / entry["log"]).read_text()
    assert "half a line without an end" in text
    report.show([entry], console(), verbose=False)
    assert sanitizer.closing([entry]) == ["1 implementation under memcheck: nothing found."]
    assert "python-fine" in capsys.readouterr().out


def test_a_finding_makes_the_implementation_wrong(standin, tmp_path, monkeypatch, capsys):
    report_text = "\n".join(line for line in sample("memcheck").splitlines() if line.startswith("=====")).rstrip()
    monkeypatch.setenv("STANDIN_REPORT", report_text)
    entry, _ = run_under(standin, tmp_path, "python-fine")
    assert entry["status"] == "wrong"
    assert entry["findings"][0]["trial"]
    assert "memcheck: invalid read of 16 bytes in oob, san.py:7, at trial " in entry["reason"]
    assert verdict.exit_code({"results": [], "batteries": [], "sanitized": [entry]}) == 1
    report.show([entry], console(), verbose=False)
    assert "wrong: memcheck: invalid read of 16 bytes in oob, san.py:7, at trial" in capsys.readouterr().out


def test_a_finding_in_a_kernel_of_pytorch_does_not_make_it_wrong(standin, tmp_path, monkeypatch):
    where = "at void at::native::vectorized_elementwise_kernel<4>(int)+0x80"
    monkeypatch.setenv("STANDIN_REPORT", block("Uninitialized __global__ memory read of size 4 bytes", where).strip())
    entry, _ = run_under(standin, tmp_path, "python-fine", "initcheck")
    assert (entry["status"], entry["findings"][0]["own"]) == ("ok", False)


def test_an_implementation_that_hangs_is_ended(standin, tmp_path):
    entry, _ = run_under(standin, tmp_path, "python-hangs", timeout_s=1.0)
    assert (entry["status"], entry["exit"]) == ("unknown", None)
    assert "did not finish within 3 s (--timeout)" in entry["unfinished"]


def test_an_implementation_that_exits_or_always_raises_cannot_be_judged(standin, tmp_path):
    entry, _ = run_under(standin, tmp_path, "python-exits")
    assert (entry["status"], entry["exit"]) == ("unknown", 7)
    assert "exit code 7" in entry["unfinished"]
    (tmp_path / "b").mkdir()
    entry, _ = run_under(standin, tmp_path / "b", "python-raises")
    assert (entry["status"], entry["cases"]) == ("unknown", 0)
    assert "no call returned: ValueError: never" in entry["reason"]


def test_errors_that_cannot_be_read_are_not_ok():
    entry = {"tool": "memcheck", "findings": [], "unfinished": None, "cases": 3, "errors": 2, "raised": {}, "log": "x"}
    assert sanitizer_verdicts([entry])[0]["status"] == "unknown"


def test_implementations_with_kernels_of_their_own_are_run_and_others_if_named():
    kinds = {"manual": "manual", "torch": "torch", "compile": "compile", "triton-v2": "triton", "fast": "python"}
    impls = [{"name": n, "kind": k, "obstacle": None, "interpreted": False} for n, k in kinds.items()]
    impls.append({"name": "cpp", "kind": "cpp", "obstacle": "runs on the CPU", "interpreted": False})
    assert impls_to_sanitize(impls, named=False) == ["compile", "triton-v2", "fast"]
    assert impls_to_sanitize(impls[:2], named=True) == ["manual", "torch"]


def test_the_process_ends_with_its_parent(standin, tmp_path):
    """The parent is killed: no process that it started keeps running."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom support.sanitizer import run_under\n"
        "run_under(sys.argv[2], Path(sys.argv[3]), 'python-hangs', timeout_s=100.0)\n"
    )
    env = klab_env(PYTHONPATH=os.pathsep.join(sys.path))
    parent = subprocess.Popen([sys.executable, "-c", code, str(HERE), standin, str(tmp_path)], env=env)
    try:
        log = tmp_path / "run" / "artifacts" / "sanitize-double-python-hangs-memcheck.txt"
        wait_for(lambda: log.exists() and "begin" in log.read_text())
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_for(lambda: not running_with(str(tmp_path)))


def running_with(word):
    """Other processes with this word in their command line."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line and int(process.name) != os.getpid():
            processes.append(process.name)
    return processes


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
