"""What a session records: by a schedule, without one, and until a limit."""

import threading
import time

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.profiler.recording_limits import recordable_bytes
from kernellab.profiler.schedule import Schedule, parse_schedule
from kernellab.profiler.session import Session, State
from kernellab.profiler.steps import StepDetector
from support.recordings import OPERATORS_ONLY, names_in


def scheduled(folder, schedule, name="x"):
    return Session(folder, name, parse_schedule(schedule), options=OPERATORS_ONLY)


def run_steps(count):
    for _ in range(count):
        torch.ones(3).sin()
        kl.step()


def states_over_steps(session, count):
    session.start()
    states = [session.state]
    for _ in range(count):
        kl.step()
        states.append(session.state)
    session.stop()
    return states


def call_functions(until):
    while not until():
        [(lambda: None)() for _ in range(1000)]


# Schedules ---------------------------------------------------------------------------------------------


def test_each_cycle_is_a_trace_with_its_steps_in_it(tmp_path):
    session = scheduled(tmp_path, "2,1,2,2")
    session.start()
    run_steps(12)
    session.stop()
    assert session.traces == ["x-1.json", "x-2.json"]
    steps = [[name for name in names_in(session, number) if name.startswith("Prof")] for number in (0, 1)]
    assert steps == [["ProfilerStep#3", "ProfilerStep#4"], ["ProfilerStep#8", "ProfilerStep#9"]]
    assert [(entry["phase"], entry["cycle"], entry["first"], entry["last"]) for entry in session.steps] == [
        ("wait", 1, 0, 1),
        ("warm-up", 1, 2, 2),
        ("active", 1, 3, 4),
        ("wait", 2, 5, 6),
        ("warm-up", 2, 7, 7),
        ("active", 2, 8, 9),
        ("over", 2, 10, 11),
    ]
    assert session.plain_times.steps == 1  # the first step of a wait is not timed, nor is a wait after a recording
    assert session.recorded_times.steps == 4


def test_a_schedule_determines_the_states(tmp_path):
    states = states_over_steps(scheduled(tmp_path, "1,1,1,1"), 3)
    assert states == [State.WAITING, State.WARMING_UP, State.SCHEDULED, State.OVER]


def test_a_cycle_without_a_whole_step_is_dropped_if_there_is_another(tmp_path):
    session = scheduled(tmp_path, "0,0,1,0")
    session.start()
    run_steps(2)
    session.stop()
    assert session.traces == ["x-1.json", "x-2.json"]


def test_a_cycle_without_a_whole_step_is_kept_if_it_is_the_only_one(tmp_path):
    session = scheduled(tmp_path, "0,0,1,0")
    session.start()
    torch.ones(3).sin()
    session.stop()
    assert "aten::sin" in names_in(session)


def test_a_trace_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").touch()
    session = scheduled(tmp_path / "file", "0,0,1,2")
    session.start()
    run_steps(3)
    session.stop()
    assert session.traces == []
    assert "x-1.json could not be written" in session.notes[0]


# Without a schedule ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "recorded"), [(0, 0), (2, 2), (3, 3), (5, 2), (30, 4)])
def test_a_program_is_recorded_whole_unless_it_turns_out_to_have_steps(tmp_path, steps, recorded):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 4), options=OPERATORS_ONLY)
    session.start()
    torch.ones(3).cos()
    run_steps(steps)
    session.stop()
    assert names_in(session).count("aten::sin") == recorded
    assert ("aten::cos" in names_in(session)) == (steps <= 3)


def test_steps_lead_from_recording_everything_to_a_schedule(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(2, 0, 1), options=OPERATORS_ONLY)
    states = states_over_steps(session, 3)
    assert states == [State.EVERYTHING, State.EVERYTHING, State.SCHEDULED, State.OVER]


# Other profilers ---------------------------------------------------------------------------------------


def test_there_is_one_profiler_at_a_time(tmp_path):
    session = Session(tmp_path, "x", options=OPERATORS_ONLY)
    session.start()
    with pytest.raises(UserError, match="only one at a time"):
        Session(tmp_path, "y", options=OPERATORS_ONLY).start()
    with torch.profiler.profile() as own:  # the program's own has priority
        torch.ones(3).sin()
    session.stop()
    assert "aten::sin" in {event.name for event in own.events()}
    assert "aten::sin" not in names_in(session)
    assert "profiler of its own" in session.notes[0]


def test_a_profiler_that_begins_while_a_session_waits_has_priority_too(tmp_path):
    session = scheduled(tmp_path, "1,0,1,0")
    session.start()
    with torch.profiler.profile() as own:
        run_steps(3)
    session.stop()
    assert sum(event.name == "aten::sin" for event in own.events()) == 3
    assert session.traces == []
    assert "profiler of its own" in session.notes[0]


def test_a_session_ends_early_for_kl_profile_and_still_counts_steps(tmp_path):
    session = Session(tmp_path, "x", options=OPERATORS_ONLY, interruptible=True)
    session.start()
    torch.ones(3).cos()
    profile = kl.profile("sin", lambda: torch.ones(3).sin(), 0, folder=str(tmp_path))
    kl.step()
    session.stop()
    assert "aten::sin" in profile
    assert "aten::cos" in names_in(session)
    assert "aten::sin" not in names_in(session)
    assert session.step_number == 1
    assert "profiler of its own" in session.notes[0]


# Limits ------------------------------------------------------------------------------------------------


def test_a_recording_ends_at_its_time_limit(tmp_path):
    session = Session(tmp_path, "x", options=OPERATORS_ONLY, limit_s=0.05)
    session.start()
    for _ in range(10**7):
        torch.ones(3).sin()
        if session.traces:
            break
    session.stop()
    assert len(session.traces) == 1
    assert "0.05 s" in session.notes[0]


@pytest.mark.parametrize("schedule", [None, "0,0,4,2", "1,1,1,0"])
def test_steps_are_counted_after_a_recording_has_ended_early(tmp_path, schedule):
    session = Session(
        tmp_path,
        "x",
        schedule and parse_schedule(schedule),
        once_stepping=Schedule(3, 0, 4),
        options=OPERATORS_ONLY,
        limit_s=60,
    )
    session.start()
    for number in range(12):
        torch.ones(3).sin()
        if number == 2:
            session._end_early("early")
        kl.step()
    session.stop()
    assert session.traces == ["x-1.json"]
    assert session.steps[-1]["last"] == 11
    assert session.notes == ["early"]


def test_a_recording_ends_before_it_takes_too_much_memory(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=4 << 20)
    session.start()
    call_functions(until=lambda: session.state is State.WAITING)
    session.stop()
    assert len(session.traces) == 1
    assert "--no-stacks" in session.notes[0]
    assert "the 0.00391 GiB of memory allowed. --memory 0.00781" in session.notes[0]


def test_steps_after_a_recording_that_was_too_large_are_recorded_instead(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=4 << 20)
    session.start()
    call_functions(until=lambda: session.state is State.WAITING)
    run_steps(5)
    session.stop()
    assert len(session.traces) == 1
    assert names_in(session).count("aten::sin") == 2
    assert session.notes == []


def test_a_model_called_after_a_recording_that_was_too_large_is_recorded(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=4 << 20)
    detector, model = StepDetector(), torch.nn.Linear(3, 3)
    session.start()
    call_functions(until=lambda: session.state is State.WAITING)
    model(torch.ones(3))
    detector.remove()
    session.stop()
    assert "aten::linear" in names_in(session)


def test_a_program_with_many_operators_may_record_more_than_one_with_many_calls(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60)
    session.start()
    for _ in range(3):
        for _ in range(1000):
            torch.ones(3).sin()
        kl.step()
    session.stop()
    budget = 1 << 20
    expected = 4 * recordable_bytes(budget, stacks=True)
    assert recordable_bytes(budget, stacks=True, growth=session._growth) >= expected


def test_steps_that_begin_after_the_limit_are_recorded(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=0.05, options=OPERATORS_ONLY)
    session.start()
    time.sleep(0.2)
    run_steps(6)
    session.stop()
    assert names_in(session).count("aten::sin") == 2
    assert session.notes == []


# Threads -----------------------------------------------------------------------------------------------


@pytest.mark.clocked
def test_work_in_other_threads_gets_a_note(tmp_path):
    session = Session(tmp_path, "x", options=OPERATORS_ONLY, limit_s=0.6)
    session.start()
    ended = time.perf_counter() + 0.9

    def work():
        kl.step()
        while time.perf_counter() < ended:
            torch.ones(3).sin()

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    session.stop()
    notes = "\n".join(session.notes)
    assert "steps that end outside the main thread" in notes
    assert "thread worker was busy" in notes


def test_a_limit_interrupts_the_main_thread_while_it_waits_for_another_thread(tmp_path):
    session = Session(tmp_path, "x", options=OPERATORS_ONLY, limit_s=0.05)
    session.start()
    traces = []
    thread = threading.Thread(target=lambda: (time.sleep(1), traces.extend(session.traces)))
    thread.start()
    thread.join()
    session.stop()
    assert traces == ["x-1.json"]  # written while the main thread waited
    assert session.notes == ["recording stopped after 0.05 s: --seconds changes the limit"]
