"""How long steps take, with and without the profiler."""

import pytest

from kernellab.profiler import step_times
from kernellab.profiler.step_times import StepTimes


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(step_times, "_now", lambda: now[0])
    return now


def test_steps_after_a_recording_are_timed_in_stretches_of_which_the_median_counts(clock):
    times = StepTimes()
    for step in range(21, 60):
        clock[0] += 9.0 if step < 23 else 1.0  # the first two are slowed by the profiler's end
        if step == 30:
            clock[0] += 100.0  # something else delayed the program
        times.continue_after(20, step)
    assert times.step_us == pytest.approx(1e6)
    assert times.steps == 30  # six stretches are enough


def test_a_program_that_ends_soon_is_timed_by_the_steps_it_has(clock):
    times = StepTimes()
    for step in range(21, 28):
        clock[0] += 2.0
        times.continue_after(20, step)
    assert (times.steps, times.step_us) == (5, pytest.approx(2e6))


def test_without_steps_there_is_no_time():
    assert StepTimes().step_us is None


def test_a_stretch_without_a_whole_step_does_not_count(clock):
    times = StepTimes()
    times.begin(3)
    times.end(3)
    assert times.step_us is None
    assert not times.timing
