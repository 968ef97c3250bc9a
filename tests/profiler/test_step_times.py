"""How long steps take, with and without the profiler."""

import pytest

from kernellab.profiler import step_times as pace


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pace, "_now", lambda: now[0])
    return now


def test_steps_after_a_recording_are_timed_in_stretches_of_which_the_middle_one_counts(clock):
    plain = pace.Pace()
    for step in range(21, 60):
        clock[0] += 9.0 if step < 23 else 1.0  # the first two pay for the profiler's end
        if step == 30:
            clock[0] += 100.0  # something else held the program up
        plain.follow(step, since=20)
    assert plain.us == pytest.approx(1e6)
    assert plain.steps == 30  # six stretches are enough


def test_a_program_that_ends_soon_is_timed_by_what_there_is(clock):
    plain = pace.Pace()
    for step in range(21, 28):
        clock[0] += 2.0
        plain.follow(step, since=20)
    assert (plain.steps, plain.us) == (5, pytest.approx(2e6))
    assert pace.Pace().us is None


def test_a_stretch_of_no_whole_step_is_none(clock):
    profiled = pace.Pace()
    profiled.begin(3)
    profiled.end(3)
    assert profiled.us is None
    assert not profiled.begun
