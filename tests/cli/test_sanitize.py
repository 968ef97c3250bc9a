"""`klab check --sanitize` without a GPU: refusals, and the whole path with a stand-in for the tool."""

import os
import subprocess
import sys

import pytest

from kernellab.base.errors import UserError
from kernellab.cli import parse, sanitize_option
from kernellab.machine import tools
from kernellab.record.reading import load
from support.klab import OPFILES, klab_env
from support.sanitizer import install_standin, sample


def test_without_a_gpu_one_sentence_says_so(klab):
    if tools.has_gpu():
        pytest.skip("there is a GPU")
    seen = klab("check", "gelu", "--sanitize")
    assert seen.code == 2
    assert seen.err == "klab: --sanitize needs an NVIDIA GPU: there is none here. klab doctor lists what was found\n"
    seen = klab("check", "--sanitize", "gelu")
    assert seen.code == 2
    assert "name the op before --sanitize" in seen.err


def test_without_the_tool_one_sentence_says_so(monkeypatch, tmp_path):
    _, args = parse(["check", "gelu", "--sanitize", "racecheck,memcheck"])
    monkeypatch.setattr(tools, "has_gpu", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"not found on the PATH, in \$CUDA_HOME/bin .* install the CUDA toolkit"):
        sanitize_option.read_sanitizers(args, "auto")
    with pytest.raises(UserError, match="needs an NVIDIA GPU"):
        sanitize_option.read_sanitizers(args, "cpu")
    (tmp_path / "compute-sanitizer").write_text("#!/bin/sh\n")
    (tmp_path / "compute-sanitizer").chmod(0o755)
    assert sanitize_option.read_sanitizers(args, "auto") == ["memcheck", "racecheck"]


def test_doctor_has_a_line_for_the_tool(klab):
    line = next(line for line in klab("doctor").out.splitlines() if "compute-sanitizer" in line)
    assert tools.compute_sanitizer() or "not found: klab check --sanitize cannot run; install" in line


# klab as a user runs it, except for the two questions whether there is a GPU.
ANYWHERE = """
from kernellab.machine import tools
from kernellab.running.parent.runner import Runner
from kernellab.cli import main
tools.has_gpu = lambda: True
Runner._refuse_sanitizing_without_gpu = lambda self: None
main()
"""


def klab_anywhere(tmp_path, *args, **env):
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command = [sys.executable, "-c", ANYWHERE, "check", *map(str, args)]
    env = klab_env(PATH=path, **env)
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)


def test_a_finding_is_shown_recorded_and_fails_the_run(tmp_path):
    install_standin(tmp_path)
    text = "\n".join(line for line in sample("racecheck").splitlines()[1:4])
    args = (OPFILES / "sanitized.py", "--declared", "--quick", "--impl", "python-fine", "--out", "out")
    seen = klab_anywhere(tmp_path, *args, "--sanitize", "racecheck,synccheck", STANDIN_REPORT=text)
    assert seen.returncode == 1, seen.stderr
    assert "double · under compute-sanitizer" in seen.stdout
    assert "python-fine  wrong: racecheck: race in race, kernels.cu:5, at trial " in seen.stdout
    assert "1 implementation under racecheck, synccheck: errors in double python-fine." in seen.stdout
    assert "double python-fine under racecheck" in seen.stderr
    record = load(tmp_path / "out")
    assert [entry["tool"] for entry in record["sanitized"]] == ["racecheck", "synccheck"]
    assert record["complete"]
    logs = {log: log.stat().st_mtime_ns for log in (tmp_path / "out" / "artifacts").glob("sanitize-*.txt")}
    assert len(logs) == 2
    assert klab_anywhere(tmp_path, "--resume", "out").returncode == 1
    assert all(log.stat().st_mtime_ns == written for log, written in logs.items())  # nothing ran again
