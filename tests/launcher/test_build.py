"""The extension is built once, in the background, and its absence costs time and nothing else."""

import os
import time

import pytest
import torch

from kernellab.doctor import installation
from kernellab.launcher import build
from kernellab.launcher.repetition import Launcher


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A compiler that runs a line of shell; its output is $OUT."""

    def set_compiler(line):
        path = tmp_path / "compiler"
        find_output = 'for word; do [ "$last" = -o ] && OUT=$word; last=$word; done'
        path.write_text(f"#!/bin/sh\necho x >> {tmp_path}/calls\n{find_output}\n{line}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(build.SWITCH, raising=False)
    return set_compiler


@pytest.fixture
def compiler_calls(tmp_path):
    calls = tmp_path / "calls"
    return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0


class Loaded(Launcher):
    """A launcher that loads nothing."""

    def __init__(self):
        super().__init__()
        self.loaded = []

    def _load(self, goal):
        self.loaded.append(goal.library.read_text())


def test_nobody_waits_for_the_build_and_the_library_is_loaded_when_it_is_there(compiler):
    compiler('sleep 1; echo built > "$OUT"')
    launcher = Loaded()
    began = time.monotonic()
    launcher.start()
    assert time.monotonic() - began < 0.9
    assert launcher.loaded == []
    launcher.wait_until_built(30)
    assert launcher.loaded == ["built\n"]


def test_a_library_that_was_built_is_loaded_at_once(compiler, compiler_calls):
    compiler('echo built > "$OUT"')
    build.build(build.target())
    launcher = Loaded()
    launcher.start()
    assert launcher.loaded == ["built\n"]
    assert compiler_calls() == 1
    assert not list(build.target().library.parent.glob("*.log"))


def test_a_build_that_failed_is_kept_with_its_reason_and_not_tried_again(compiler, compiler_calls):
    compiler("echo no such header; exit 1")
    for _ in range(2):
        launcher = Loaded()
        assert not launcher.wait_until_built(30)
        assert launcher.loaded == []
    assert compiler_calls() == 1
    assert "no such header" in build.target().failed.read_text()
    component = installation._launcher()
    assert component.found == ""
    assert str(build.target().failed) in component.remedy


def test_processes_that_need_it_at_the_same_time_build_it_once(compiler, compiler_calls):
    import threading

    compiler('sleep 0.5; echo built > "$OUT"')
    threads = [threading.Thread(target=build.build, args=(build.target(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiler_calls() == 1


def test_nothing_is_built_where_it_is_switched_off(compiler, compiler_calls, monkeypatch):
    compiler('echo built > "$OUT"')
    monkeypatch.setenv(build.SWITCH, "0")
    assert not Loaded().wait_until_built()
    assert compiler_calls() == 0
    component = installation._launcher()
    assert (component.found, component.cost[:26]) == ("", "KERNELLAB_LAUNCHER is 0: e")


def test_nothing_is_built_without_a_compiler(compiler, monkeypatch):
    monkeypatch.setattr("kernellab.machine.tools.cxx", lambda: None)
    assert not Loaded().wait_until_built()
    component = installation._launcher()
    assert component.found == ""
    assert "there is no C++ compiler: eager calls of kernellab.functional on a GPU take" in component.cost


def test_nothing_is_built_for_calls_on_the_cpu():
    launcher = Launcher()
    launcher.wait(torch.ones(3))
    assert not launcher.is_started


def test_doctor_says_that_it_will_be_built_and_that_it_is(compiler):
    compiler('echo built > "$OUT"')
    assert installation._launcher().found.startswith("not built yet")
    build.build(build.target())
    assert installation._launcher().found == f"built for torch {torch.__version__}"


def test_the_compiler_keeps_the_lock_when_the_program_has_ended(compiler, tmp_path):
    import fcntl
    import subprocess
    import sys

    compiler('sleep 1.5; echo built > "$OUT"')
    program = (
        "import threading, time, os\nfrom kernellab.launcher import build\n"
        "threading.Thread(target=build.build, args=(build.target(),), daemon=True).start()\n"
        f"while not os.path.exists({str(tmp_path / 'calls')!r}): time.sleep(0.01)\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ})
    goal = build.target()
    assert not goal.library.exists()
    with (goal.library.parent / f"{goal.library.stem}.lock").open("w") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_EX)
    assert goal.library.read_text() == "built\n"
