"""How the parent runs profiled programs."""

import json
import os
import signal
import threading

import pytest

from kernellab.running.parent import profiling


def interrupt(*_):
    """Raises what klab's handler of SIGTERM raises."""
    raise KeyboardInterrupt


def test_a_program_that_ignores_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(profiling, "_SIGTERM_TIMEOUT_S", 0.2)
    handler = signal.signal(signal.SIGTERM, interrupt)
    main_thread = threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, [main_thread, signal.SIGTERM]).start()
    command = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]
    try:
        code = profiling.run_on_terminal(command, dict(os.environ), quiet_stdout=True)
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert code == 128 + signal.SIGKILL


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -TERM $$", 128 + signal.SIGTERM)])
def test_the_exit_code_is_that_of_a_shell(command, code):
    assert profiling.run_on_terminal(["sh", "-c", command], dict(os.environ), quiet_stdout=True) == code


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
