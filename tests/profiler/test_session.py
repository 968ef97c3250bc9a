"""What is recorded: schedules, steps however they become known, and where a program's own work begins."""

import importlib
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
import torch
from torch.overrides import BaseTorchFunctionMode, _get_current_function_mode_stack

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.profiler import first_tensor as first_work
from kernellab.profiler import recording_limits as watch
from kernellab.profiler.first_tensor import FirstWork
from kernellab.profiler.schedule import Schedule, parse
from kernellab.profiler.session import How, Session
from kernellab.profiler.signals import held
from kernellab.profiler.steps import Following
from kernellab.traces import kineto
from kernellab.workloads.mlp import train
from kernellab.workloads.mlp_setup import Setup

PLAIN = How(shapes=False, memory=False, stacks=False)


def names_in(session, number=0):
    trace = kineto.read(session.folder / session.traces[number])
    return [trace.name_of(row) for row in range(len(trace))]


def test_a_schedule_gives_every_step_its_phase():
    schedule = parse("2,1,3,2")
    phases = [schedule.phase(step) for step in range(13)]
    assert phases == (["wait"] * 2 + ["warm-up"] + ["active"] * 3) * 2 + ["over"]
    assert [schedule.number(step) for step in (0, 5, 6, 12)] == [1, 1, 2, 2]
    assert parse("0,0,1,0").phase(10**6) == "active"  # 0 times over is without end


@pytest.mark.parametrize("text", ["1,2", "a,b,c", "1,1,0,1", "-1,1,1,1", "1,1,1,1,1", ""])
def test_a_schedule_that_makes_no_sense_is_refused(text):
    with pytest.raises(UserError, match="--schedule"):
        parse(text)


def test_each_cycle_is_a_trace_with_its_steps_in_it(tmp_path):
    session = Session(tmp_path, "x", parse("2,1,2,2"), how=PLAIN)
    session.start()
    for _ in range(12):
        torch.ones(3).sin()
        kl.step()
    session.stop()
    assert session.traces == ["x-1.json", "x-2.json"]
    assert [n for n in names_in(session, 0) if n.startswith("Prof")] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert [n for n in names_in(session, 1) if n.startswith("Prof")] == ["ProfilerStep#8", "ProfilerStep#9"]
    assert [(s["phase"], s["cycle"], s["first"], s["last"]) for s in session.steps] == [
        ("wait", 1, 0, 1),
        ("warm-up", 1, 2, 2),
        ("active", 1, 3, 4),
        ("wait", 2, 5, 6),
        ("warm-up", 2, 7, 7),
        ("active", 2, 8, 9),
        ("over", 2, 10, 11),
    ]
    assert session.plain.steps == 1  # the first step of a wait is not timed, nor is any wait after a recording
    assert session.profiled.steps == 4


def optimized(steps, extra=lambda: None):
    weight = torch.nn.Parameter(torch.ones(3))
    first, second = torch.optim.SGD([weight], lr=0.1), torch.optim.Adam([weight])
    for _ in range(steps):
        weight.sum().backward()
        first.step()
        second.step()
        extra()


@pytest.mark.parametrize("extra", [lambda: None, kl.step], ids=["optimizer", "kl.step"])
def test_steps_are_the_first_optimizers_unless_the_program_says(tmp_path, extra):
    session = Session(tmp_path, "x", parse("1,0,3,1"), how=PLAIN)
    following = Following()
    session.start()
    optimized(5, extra)
    session.stop()
    following.remove()
    assert [(s["phase"], s["last"] - s["first"] + 1) for s in session.steps] == [
        ("wait", 1),
        ("active", 3),
        ("over", 1),
    ]
    # Whole: the recording of a step ends once the optimizer has.
    assert names_in(session).count("Optimizer.step#SGD.step") == 3


@pytest.mark.parametrize(("steps", "recorded"), [(0, 0), (2, 2), (3, 3), (5, 2), (30, 4)])
def test_a_program_is_recorded_whole_unless_it_turns_out_to_have_steps(tmp_path, steps, recorded):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 4), how=PLAIN)
    session.start()
    torch.ones(3).cos()
    for _ in range(steps):
        torch.ones(3).sin()
        kl.step()
    session.stop()
    assert names_in(session).count("aten::sin") == recorded
    assert ("aten::cos" in names_in(session)) == (steps <= 3)


def test_there_is_one_profiler_at_a_time(tmp_path):
    session = Session(tmp_path, "x", how=PLAIN)
    session.start()
    with pytest.raises(UserError, match="one at a time"):
        Session(tmp_path, "y", how=PLAIN).start()
    with torch.profiler.profile() as own:  # the program's comes first
        torch.ones(3).sin()
    session.stop()
    assert "aten::sin" in {event.name for event in own.events()}
    assert "aten::sin" not in names_in(session)
    assert "profiler of its own" in session.notes[0]


def test_a_recording_has_an_end(tmp_path):
    session = Session(tmp_path, "x", how=PLAIN, limit_s=0.05)
    session.start()
    for _ in range(10**7):
        torch.ones(3).sin()
        if session.traces:
            break
    session.stop()
    assert len(session.traces) == 1
    assert "0.05 s" in session.notes[0]


@pytest.mark.parametrize("schedule", [None, "0,0,4,2", "1,1,1,0"])
def test_steps_go_on_after_a_recording_has_ended_early(tmp_path, schedule):
    session = Session(
        tmp_path, "x", schedule and parse(schedule), once_stepping=Schedule(3, 0, 4), how=PLAIN, limit_s=60
    )
    session.start()
    for number in range(12):
        torch.ones(3).sin()
        if number == 2:
            session._end("early")
        kl.step()
    session.stop()
    assert session.traces == ["x-1.json"]
    assert session.steps[-1]["last"] == 11
    assert len(session.notes) == 1


def test_a_trace_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").touch()
    session = Session(tmp_path / "file", "x", parse("0,0,1,2"), how=PLAIN)
    session.start()
    for _ in range(3):
        torch.ones(3).sin()
        kl.step()
    session.stop()
    assert session.traces == []
    assert "x-1.json could not be written" in session.notes[0]
    with pytest.raises(UserError, match="could not be written"):
        kl.profile("sin", lambda: torch.ones(3).sin(), folder=str(tmp_path / "file"))


def calls(until):
    while not until():
        [(lambda: None)() for _ in range(1000)]


@pytest.mark.parametrize("steps", [0, 5])
def test_a_recording_ends_before_it_takes_too_much_memory(tmp_path, steps):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=4 << 20)
    session.start()
    calls(until=lambda: session._profiler is None)
    for _ in range(steps):
        torch.ones(3).sin()
        kl.step()
    session.stop()
    assert len(session.traces) == 1
    if steps:  # what comes after the waiting is shown, and is whole
        assert names_in(session).count("aten::sin") == 2
        assert session.notes == []
    else:
        assert "--no-stacks" in session.notes[0]
        assert "the 0.00391 GiB a recording may. --memory 0.00781" in session.notes[0]


def test_a_program_of_operators_has_room_for_more_than_one_of_calls(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60)
    session.start()
    for _ in range(3):
        for _ in range(1000):
            torch.ones(3).sin()
        kl.step()
    session.stop()
    most = 1 << 20
    assert watch.room(most, stacks=True, growth=session._growth) >= 4 * watch.room(most, stacks=True)
    assert watch.room(most, stacks=True, growth=1000.0) == watch.room(most, stacks=True)


def test_a_program_of_many_small_operators_is_not_taken_for_a_slower_one(monkeypatch):
    began = time.perf_counter()
    monkeypatch.setattr(watch, "_allocated", lambda: int(150e6 * (time.perf_counter() - began)))
    looking = watch.Watch(60, 1 << 40, lambda *_: None)
    time.sleep(0.1)
    looking.see()
    assert looking._recorded >= 0.9 * 150e6 * looking.seconds
    looking.stop()


def test_what_is_free_bounds_a_recording_whatever_it_is_allowed(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1 << 40, available=64 << 20))
    assert watch.room(1 << 40, stacks=True, growth=8) == 0.75 * (1 << 20)


def test_other_threads_are_not_silently_left_out(tmp_path):
    session = Session(tmp_path, "x", how=PLAIN, limit_s=0.6)
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
    said = "\n".join(session.notes)
    assert "steps that end in other threads" in said
    assert "thread worker worked meanwhile" in said


def test_waiting_for_a_thread_is_interrupted_and_goes_on(tmp_path):
    session = Session(tmp_path, "x", how=PLAIN, limit_s=0.05)
    session.start()
    traces = []
    thread = threading.Thread(target=lambda: (time.sleep(1), traces.extend(session.traces)))
    thread.start()
    thread.join()
    session.stop()
    assert traces == ["x-1.json"]  # while the main thread waited
    assert session.notes == ["recorded for 0.05 s, then no more: --seconds changes that"]


def test_steps_that_begin_after_the_limit_are_recorded(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=0.05, how=PLAIN)
    session.start()
    time.sleep(0.2)
    for _ in range(6):
        torch.ones(3).sin()
        kl.step()
    session.stop()
    assert names_in(session).count("aten::sin") == 2
    assert session.notes == []


def test_an_interruption_waits_until_what_it_would_spoil_is_done():
    done = []

    def interrupted():
        with held():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with held(again=False):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        done.append(2)
    assert done == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_profiler_that_begins_while_steps_are_waited_for_comes_first_too(tmp_path):
    session = Session(tmp_path, "x", parse("1,0,1,0"), how=PLAIN)
    session.start()
    with torch.profiler.profile() as own:
        for _ in range(3):
            torch.ones(3).sin()
            kl.step()
    session.stop()
    assert sum(event.name == "aten::sin" for event in own.events()) == 3
    assert session.traces == []
    assert "profiler of its own" in session.notes[0]


def test_a_session_gives_way_to_kl_profile_and_its_steps_go_on(tmp_path):
    session = Session(tmp_path, "x", how=PLAIN, yields=True)
    session.start()
    torch.ones(3).cos()
    found = kl.profile("sin", lambda: torch.ones(3).sin(), 0, folder=str(tmp_path))
    kl.step()
    session.stop()
    assert "aten::sin" in found
    assert "aten::cos" in names_in(session)
    assert "aten::sin" not in names_in(session)
    assert session.step_number == 1
    assert "profiler of its own" in session.notes[0]


def test_a_cycle_without_a_whole_step_is_no_trace_unless_there_is_no_other(tmp_path):
    session, alone = (Session(tmp_path, name, parse("0,0,1,0"), how=PLAIN) for name in ("x", "alone"))
    session.start()
    for _ in range(2):
        torch.ones(3).sin()
        kl.step()
    session.stop()
    assert session.traces == ["x-1.json", "x-2.json"]
    alone.start()
    torch.ones(3).sin()
    alone.stop()
    assert "aten::sin" in names_in(alone)


def test_the_mlp_is_captured_from_step_11_with_all_its_names(tmp_path):
    setup = Setup(dim=8, layers=8, batch=4, steps=100, optimizer="adam", rate="cosine", data=True)
    session = Session(tmp_path, "mlp", Schedule(10, 1, 89), how=PLAIN, marked=True)
    session.start()
    trained = train(setup)
    session.stop()
    names = names_in(session)
    assert [n for n in names if n.startswith("step_")] == [f"step_{i}" for i in range(11, 100)]
    for name in ("forward", "backward", "optimizer_step", "layer_0", "layer_7"):
        assert names.count(name) == 89
    assert "layer_8" not in names
    assert trained.peak_bytes > 0


def test_the_mlp_says_that_its_steps_are_too_few():
    with pytest.raises(UserError, match="11 steps are too few"):
        Setup(8, 1, 1, 11).refuse(capturing=True)
    Setup(8, 1, 1, 12).refuse(capturing=True)
    Setup(8, 1, 1, 1).refuse(capturing=False)


def test_run_mlp_trains_without_an_optimizer_too():
    torch.manual_seed(0)
    assert kl.run_mlp(8, 2, 4, 3).num_steps == 3
    fixed, trained = kl.run_mlp(8, 2, 4, 1, use_optimizer=True), kl.run_mlp(8, 2, 4, 60, use_optimizer=True)
    assert trained.loss < fixed.loss


# Where a program's work begins --------------------------------------------------------------------------


def inferred():
    with torch.inference_mode():
        torch.ones(3).sin()


def on_another_device():
    with torch.device("meta"):
        assert torch.ones(3).sin().device.type == "meta"


@pytest.mark.parametrize("work", [lambda: torch.ones(3).sin(), inferred, on_another_device])
def test_a_programs_work_begins_with_its_first_tensor(work):
    began = []
    first = FirstWork(lambda: began.append(modes()))
    torch.cuda.is_available()
    assert began == []
    work()
    work()
    assert began == [0] == [modes()]  # nothing is left behind
    assert torch.ones(3).device.type == "cpu"
    assert 0 < first.seconds < 60


def modes():
    """How many are looking that are ours."""
    return sum(type(mode).__module__ == first_work.__name__ for mode in _get_current_function_mode_stack())


def test_tensors_made_by_imports_are_not_a_programs_work(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    (tmp_path / "with_a_constant.py").write_text("import torch\nMEAN = torch.ones(3)\n")
    began = []
    first = FirstWork(lambda: began.append(1))
    made = importlib.import_module("with_a_constant")
    assert (began, first.among_imports) == ([], True)
    made.MEAN.sin()
    assert began == [1]


def test_a_fork_of_a_program_that_has_not_begun_is_left_alone():
    first = FirstWork(lambda: None)
    child = os.fork()
    if not child:
        os._exit(modes())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert modes() == 1
    first.give_up()
    assert modes() == 0


def test_a_mode_of_the_programs_own_stays_where_it_is():
    began = []
    FirstWork(lambda: began.append(1))
    with BaseTorchFunctionMode() as own:
        torch.ones(3)
        assert _get_current_function_mode_stack() == [own]
    assert _get_current_function_mode_stack() == []
    assert began == [1]


@pytest.mark.parametrize(
    ("prepared", "called", "stepping", "recorded"), [(0, 4, False, 4), (3000, 4, False, 4), (3000, 9, True, 2)]
)
def test_a_program_that_prepares_much_is_recorded_from_its_models_first_call(
    tmp_path, prepared, called, stepping, recorded
):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=640 << 20)
    call, followed, model = torch.nn.Module._call_impl, Following(), torch.nn.Linear(3, 3)
    session.start()
    for _ in range(prepared):
        torch.ones(3).cos()
    session._watch.see()
    for _ in range(called):
        model(torch.ones(3))
        if stepping:
            kl.step()
    followed.remove()
    session.stop()
    assert names_in(session).count("aten::linear") == recorded
    assert "aten::cos" not in names_in(session)
    assert any("a model's first call" in note for note in session.notes) == (bool(prepared) and not stepping)
    assert [path.name for path in tmp_path.iterdir()] == ["x-1.json"]
    assert torch.nn.Module._call_impl is call


def test_a_program_that_prepares_much_and_then_has_steps_is_recorded_by_them(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=640 << 20)
    followed, model = Following(), torch.nn.Linear(3, 3)
    session.start()
    for _ in range(3000):
        torch.ones(3).cos()
    session._watch.see()
    for _ in range(7):
        model(torch.ones(3))
        kl.step()
    followed.remove()
    session.stop()
    assert names_in(session).count("aten::linear") == 2
    assert session.notes == []
    assert [path.name for path in tmp_path.iterdir()] == ["x-1.json"]


def test_a_program_that_outgrows_its_recording_is_recorded_again_from_its_models_first_call(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=4 << 20)
    followed, model = Following(), torch.nn.Linear(3, 3)
    session.start()
    calls(until=lambda: session._profiler is None)
    model(torch.ones(3))
    followed.remove()
    session.stop()
    assert "aten::linear" in names_in(session)


def test_tensors_among_the_small_pieces_are_not_taken_for_a_recording(tmp_path, monkeypatch):
    session = Session(tmp_path, "x", how=PLAIN, limit_s=60)
    session.start()
    held = session._watch
    monkeypatch.setattr(watch, "_allocated", lambda: held._began_bytes + (1 << 30))
    held.see()
    assert held._recorded < watch._FASTEST * held.seconds
    monkeypatch.setattr(watch, "_allocated", lambda: held._began_bytes + 1000)
    held.see()
    assert held._recorded == 1000
    session.stop()
