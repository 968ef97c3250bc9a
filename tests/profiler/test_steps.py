"""How a program's steps are detected, and the first call of its model."""

import pytest
import torch

import kernellab as kl
from kernellab.profiler.schedule import Schedule, parse_schedule
from kernellab.profiler.session import Session
from kernellab.profiler.steps import StepDetector
from support.recordings import OPERATORS_ONLY, names_in


def optimize(steps, after_step=lambda: None):
    weight = torch.nn.Parameter(torch.ones(3))
    first, second = torch.optim.SGD([weight], lr=0.1), torch.optim.Adam([weight])
    for _ in range(steps):
        weight.sum().backward()
        first.step()
        second.step()
        after_step()


@pytest.mark.parametrize("after_step", [lambda: None, kl.step], ids=["optimizer", "kl.step"])
def test_steps_are_the_first_optimizers_unless_the_program_calls_kl_step(tmp_path, after_step):
    session = Session(tmp_path, "x", parse_schedule("1,0,3,1"), options=OPERATORS_ONLY)
    detector = StepDetector()
    session.start()
    optimize(5, after_step)
    session.stop()
    detector.remove()
    assert [(entry["phase"], entry["last"] - entry["first"] + 1) for entry in session.steps] == [
        ("wait", 1),
        ("active", 3),
        ("over", 1),
    ]
    # All three are complete: the recording ends after the optimizer's own range.
    assert names_in(session).count("Optimizer.step#SGD.step") == 3


@pytest.mark.parametrize(
    ("prepared", "called", "stepping", "recorded"), [(0, 4, False, 4), (3000, 4, False, 4), (3000, 9, True, 2)]
)
def test_a_program_that_prepares_much_is_recorded_from_its_models_first_call(
    tmp_path, prepared, called, stepping, recorded
):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=640 << 20)
    call, detector, model = torch.nn.Module._call_impl, StepDetector(), torch.nn.Linear(3, 3)
    session.start()
    for _ in range(prepared):
        torch.ones(3).cos()
    session._limits.measure()
    for _ in range(called):
        model(torch.ones(3))
        if stepping:
            kl.step()
    detector.remove()
    session.stop()
    assert names_in(session).count("aten::linear") == recorded
    assert "aten::cos" not in names_in(session)
    assert any("first call of a model" in note for note in session.notes) == (bool(prepared) and not stepping)
    assert [path.name for path in tmp_path.iterdir()] == ["x-1.json"]
    assert torch.nn.Module._call_impl is call


def test_a_program_that_prepares_much_and_then_has_steps_is_recorded_by_them(tmp_path):
    session = Session(tmp_path, "x", once_stepping=Schedule(3, 0, 2), limit_s=60, memory_bytes=640 << 20)
    detector, model = StepDetector(), torch.nn.Linear(3, 3)
    session.start()
    for _ in range(3000):
        torch.ones(3).cos()
    session._limits.measure()
    for _ in range(7):
        model(torch.ones(3))
        kl.step()
    detector.remove()
    session.stop()
    assert names_in(session).count("aten::linear") == 2
    assert session.notes == []
    assert [path.name for path in tmp_path.iterdir()] == ["x-1.json"]
