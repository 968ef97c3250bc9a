"""A script under the profiler: it runs as Python would run it, and its report says what was recorded."""

import json
import sys
import types

import pytest
import torch

from kernellab.running.programs import profiled_script


def without_profiler(request, seconds_since_import):
    report = {"name": "program", "traces": [], "steps": [], "notes": []}
    return lambda ended_by: profiled_script._write_report(request, {**report, "ended": ended_by})


@pytest.fixture
def run_here(tmp_path, monkeypatch):
    """Run a program's text as `klab profile` does, but without a profiler: its exit code, and its module."""

    def run(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        for name in ("argv", "path", "modules"):
            monkeypatch.setattr(sys, name, getattr(sys, name).copy())
        monkeypatch.setattr(profiled_script, "start_recording", without_profiler)
        module, code = profiled_script._load_script(str(path))
        return profiled_script._run({"name": "program", "folder": str(tmp_path)}, module, code), module

    return run


@pytest.mark.parametrize(
    ("text", "code", "early"),
    [
        ("import sys\nsys.exit(7)", 7, None),
        ("import sys\nsys.exit('a word')", "a word", None),
        ("raise SystemExit", None, None),
        ("x = 1", 0, None),
        ("raise KeyboardInterrupt", 130, "Ctrl-C"),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_program_keeps_its_exit_code(run_here, tmp_path, text, code, early):
    assert run_here(text)[0] == code
    assert json.loads((tmp_path / "0.collected").read_text())[0]["ended"] == early


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import torch", "never worked with tensors in its main thread"),
        ("import tensors_on_import", "only in modules it imports"),
        (
            "import threading, torch\nt = threading.Thread(target=lambda: torch.ones(3))\nt.start()\nt.join()",
            "never worked",
        ),
    ],
)
def test_a_report_says_why_nothing_was_recorded(run_here, tmp_path, text, reason):
    (tmp_path / "tensors_on_import.py").write_text("import torch\nMEAN = torch.ones(3)\n")
    assert run_here(text)[0] == 0
    assert reason in json.loads((tmp_path / "0.collected").read_text())[0]["notes"][0]


def test_a_profiler_started_by_an_import_is_left_alone(tmp_path):
    request = {"folder": str(tmp_path), "name": "x", "schedule": None, "seconds": 9.0, "memory_bytes": None, "how": {}}
    with torch.profiler.profile() as own:
        stop = profiled_script.start_recording(request, 3.14)
        torch.ones(3).sin()
        stop(None)
    assert "aten::sin" in {event.name for event in own.events()}
    (report,) = json.loads((tmp_path / "0.collected").read_text())
    assert report["traces"] == []
    assert "profiler of its own" in report["notes"][0]
    assert "3.1 s after torch was imported" in report["notes"][1]


def test_a_program_sees_itself_as_main(run_here, tmp_path):
    text = "from __future__ import annotations\nimport sys\ndef f(x: nowhere): ...\nseen = sys.path[0]\nprint(f(1))"
    code, module = run_here(text + "\ndef g(x: nowhere_either): ...\n")
    assert code == 0  # annotations are not evaluated in either part
    assert isinstance(module, types.ModuleType)
    assert (module.__name__, module.__file__, module.__spec__) == ("__main__", str(tmp_path / "program.py"), None)
    assert module.seen == str(tmp_path)


@pytest.mark.parametrize("text", ["x = (", "def f():\n    return 1\nreturn 2", "def f():\n  x = 1\n\ty = 2"])
def test_a_program_with_a_syntax_error_is_shown_as_python_shows_it(run_here, capsys, text):
    with pytest.raises(SystemExit):
        run_here(text)
    printed = capsys.readouterr().err
    assert "Error: " in printed
    assert "Traceback" not in printed
