"""Profiled programs as the parent sees them."""

import json
import signal
import subprocess
import threading

import pytest

from kernellab.running.parent import profiling


def test_a_program_that_ignores_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(profiling, "_SIGTERM_PATIENCE_S", 0.2)
    process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done"], stdout=subprocess.PIPE)
    process.stdout.readline()
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
    with process:
        assert profiling.wait_for(process) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["collected-0", "collected-data"])
def test_traces_are_not_mistaken_for_reports(tmp_path, name):
    (tmp_path / f"{name}-1.json").write_text("{}")
    (tmp_path / "0.collected").write_text(json.dumps([{"name": name, "traces": [f"{name}-1.json"]}]))
    (report,) = profiling._read_reports(tmp_path, 1)
    assert report["traces"] == [f"{name}-1.json"]
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}-1.json"]


def test_traces_without_a_report_are_not_lost(tmp_path):
    (tmp_path / "train-1.json").write_text("{}")
    (report,) = profiling._read_reports(tmp_path, 1)
    assert report["traces"] == ["train-1.json"]
    assert report["notes"] == ["the program ended without a report"]
