"""The lines around a profile."""

from pathlib import Path

import pytest

from kernellab.reporting.profiles import recording
from support.terminal import set_terminal


def session(**more):
    return {"name": "x", "traces": [], "steps": [], "notes": [], **more}


CASE = {"dims": {"N": 64}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}


def test_implementations_are_listed_by_time():
    sessions = [
        session(op="gelu", impl=impl, case=CASE, plain_step_us=time_us)
        for impl, time_us in (("torch", 20.0), ("other", 10.0), ("untimed", None))
    ]
    assert [line.split() for line in recording.impl_time_lines(sessions)[1:3]] == [
        ["other", "10", "µs"],
        ["torch", "20", "µs"],
    ]
    assert recording.impl_time_lines(sessions[1:]) == []  # one time is no comparison


def test_implementations_without_a_trace_are_named_with_the_reason():
    skipped = session(impl="triton", status="skipped", reason="needs a GPU")
    assert recording.skipped_lines([session(impl="torch", status="ok", reason=""), skipped]) == [
        "triton: skipped, needs a GPU"
    ]


@pytest.mark.parametrize(
    ("recorded", "plain", "line"),
    [
        (30.0, 20.0, "overhead: a step took 30 µs recorded, 20 µs not recorded: 50 % more"),
        (15.0, 20.0, "overhead: a step took 15 µs recorded, 20 µs not recorded: 25 % less"),
        (30.0, None, "a step took 30 µs while recorded; it was not timed without recording"),
    ],
)
def test_the_overhead_compares_steps_with_and_without_recording(recorded, plain, line):
    assert recording.recording_lines(session(step_us=recorded, plain_step_us=plain), Path()) == [line]


def test_steps_are_listed_by_phase():
    steps = [
        {"phase": "wait", "cycle": 1, "first": 0, "last": 4},
        {"phase": "active", "cycle": 1, "first": 5, "last": 5},
    ]
    assert recording.recording_lines(session(steps=steps), Path()) == ["steps: 0–4 wait; 5 active (cycle 1)"]


@pytest.mark.parametrize("columns", [40, 60])
def test_the_lines_fit_a_narrow_terminal(monkeypatch, columns):
    steps = [{"phase": phase, "cycle": 1, "first": 0, "last": 99} for phase in ("wait", "warm-up", "active")]
    long = session(steps=steps, step_us=13760.0, plain_step_us=10580.0, notes=["a " * 60])
    set_terminal(monkeypatch, columns)
    assert max(map(len, recording.recording_lines(long, Path()))) <= columns
