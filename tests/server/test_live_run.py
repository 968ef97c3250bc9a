"""A journal is shown as it grows, and what is damaged in it is named."""

import json

import pytest

from kernellab.base.file_lock import locked
from kernellab.record.journal import JOURNAL
from kernellab.record.schema import SCHEMA
from kernellab.server.live_run import LiveRun
from support.records import ENVIRONMENT

CASE = {"dims": {"...": [8]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
HEAD = {"event": "run", "schema": SCHEMA, "command": ["klab"], "seed": 0, "environment": ENVIRONMENT}
HEAD["settings"] = {"targets": ["f"]}
PLAN = {"event": "plan", "groups": [{"op": "f", "case": CASE, "impls": {"a": "python", "b": "python"}}], "sources": {}}


def about(name, **fields):
    return {"event": name, "op": "f", "case": CASE, **fields}


BEGIN = about("begin", impl="a", phase="check")
CHECK = about("check", impl="a", check={"status": "wrong", "reason": "all\x1b zeros"})
ROUND = about("round", **{"pass": "forward"}, timer="clock", cache="cold", round=0, samples_us={"b": [1.0, 3.0]})


@pytest.fixture
def journal(tmp_path):
    """Writes lines to a journal, as a run that still goes on."""

    def write(*events, end="\n"):
        with (tmp_path / JOURNAL).open("a") as file:
            file.write("\n".join(e if isinstance(e, str) else json.dumps(e) for e in events) + end)

    with locked(tmp_path / JOURNAL):
        yield write


def test_what_was_written_since_is_added(tmp_path, journal):
    journal(HEAD, PLAN, BEGIN)
    run = LiveRun(tmp_path)
    assert run.read()
    state = run.state()
    assert (state["steps"], state["steps_done"], state["complete"]) == (2, 0, False)
    assert "check a" in state["now"]
    assert not run.read()
    journal(CHECK, ROUND)
    assert run.read()
    a, b = run.state()["rows"]
    assert (a["check"], a["time"]) == ("wrong: all\ufffd zeros", "")
    assert (b["check"], b["time"], b["rounds"]) == ("", "2 µs", 1)
    journal({"event": "complete"})
    assert run.read()
    assert run.complete


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path, journal):
    journal(HEAD, PLAN)
    run = LiveRun(tmp_path)
    run.read()
    line = json.dumps(CHECK)
    journal(line[:30], end="")
    assert not run.read()
    journal(line[30:])
    assert run.read()
    assert run.state()["steps_done"] == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: it is not JSON"),
        ("[" * 5000, "line 2: it is nested more than"),
        ('{"event": "check"}', "line 2"),
        ("[]", "line 2: it is not an event"),
    ],
)
def test_a_damaged_line_is_named_and_ends_the_reading(tmp_path, journal, line, problem):
    journal(HEAD, line, PLAN)
    run = LiveRun(tmp_path)
    assert run.read()
    assert problem in run.state()["problem"]
    assert not run.read()


def test_a_folder_without_a_journal_is_a_problem_in_words(tmp_path):
    run = LiveRun(tmp_path)
    assert run.read()
    assert "No such file" in run.state()["problem"]
