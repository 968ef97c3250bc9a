"""Which steps a trace has, told by its optimizers where nothing else marks them."""

import numpy as np
import pytest

from kernellab.analysis.document import analyse
from kernellab.traceview.view import View
from support.traced import Program


def optimizing(names, shapes=(), *, ending=True, **steps):
    """Optimizers take turns, 100 µs each; `ending`: the recording ends with the last one's step."""
    run = Program()
    if steps:
        run.builder.metadata["kernellab"] = {"steps": [{"phase": "active", "cycle": 1, **steps}]}
    with run.python("own.py(1): main"):
        for at, name in enumerate(names):
            with run.operator("aten::addmm", us=90):
                pass
            with run.range(f"Optimizer.step#{name}.step"), run.operator("aten::add_", list(shapes[at : at + 1]), us=10):
                pass
        if not ending:
            run.host(50)
    return View(run.trace()).steps


def test_an_optimizers_steps_are_as_many_as_were_recorded():
    steps = optimizing(["SGD"] * 4, first=3, last=6)
    assert (steps.count, steps.first_ns) == (4, 0)
    assert np.diff(steps.begin) == pytest.approx(100_000, rel=0.01)
    assert optimizing(["SGD"], first=0, last=0).marked
    assert optimizing(["SGD"] * 4).count == 3, "whoever does not know where a recording began leaves its first out"


def test_of_several_optimizers_one_ends_steps():
    by_name = optimizing(["SGD", "Adam"] * 4, first=5, last=8)
    assert by_name.count == 4
    assert by_name.asked_ns == pytest.approx(800_000, rel=0.01)
    alike = optimizing(["Adam"] * 8, first=5, last=8)
    assert alike.count == 4
    assert np.diff(alike.begin) == pytest.approx(200_000, rel=0.01)
    uneven = optimizing(["Adam", *["Adam", "SGD"] * 3], first=5, last=7)
    assert uneven.count == 3
    assert uneven.asked_ns == pytest.approx(700_000, rel=0.01)
    from_the_start = optimizing(["Adam"] * 8, ending=False, first=0, last=3)
    assert from_the_start.count == 4
    assert from_the_start.asked_ns == pytest.approx(700_000, rel=0.01)


def test_optimizers_of_a_trace_nobody_counted_are_told_apart_by_name_or_shapes():
    assert optimizing(["SGD", "Adam"] * 4).count == 3
    assert optimizing(["Adam"] * 8, [8, 1] * 4).count == 3
    assert optimizing(["Adam"] * 8, [8] * 8).count == 7


def test_what_comes_before_the_first_step_of_a_program_is_no_step():
    run = Program()
    run.builder.metadata["kernellab"] = {"steps": [{"phase": "active", "cycle": 1, "first": 0, "last": 2}]}
    with run.python("own.py(1): main"):
        run.host(5000)
        for _ in range(3):
            run.host(100)
            with run.range("Optimizer.step#SGD.step"):
                run.host(10)
    steps = View(run.trace()).steps
    assert steps.count == 3
    assert steps.span_ns == pytest.approx(330_000, rel=0.01)


@pytest.mark.parametrize("said", [None, [], "x", [1], [{"phase": "active", "first": "0", "last": None}]])
def test_steps_a_file_tells_nonsense_of_are_not_believed(said):
    run = Program()
    run.builder.metadata["kernellab"] = {"steps": said}
    with run.range("Optimizer.step#SGD.step"):
        pass
    assert not View(run.trace()).steps.marked


def served(calls, *, named="Model_0"):
    """A model is loaded, then called: its first call takes longer, and each hands its answer over."""
    run = Program()
    with run.python("own.py(1): main"):
        run.host(5000)
        for number in range(calls):
            with run.module(named), run.operator("aten::addmm", us=500 if number == 0 else 80):
                run.kernel("gemm", 40)
            with run.module("Softmax_0"), run.operator("aten::softmax", us=5):
                pass
            run.host(10)
    return run.trace()


def test_calls_of_a_model_are_steps_where_nothing_else_tells():
    steps = View(served(6)).steps
    assert (steps.count, steps.calls_of, steps.marked) == (5, "Model", True)
    assert np.diff(steps.begin) == pytest.approx(100_000, rel=0.02)
    assert any("a call of Model is taken for one" in note for note in analyse(served(6))["notes"])
    assert not View(served(3)).steps.marked, "three are no loop"


def test_of_a_program_without_steps_nothing_is_said_of_steps():
    run = Program()
    with run.python("own.py(1): main"):
        for _ in range(2):
            with run.operator("aten::item"):
                run.kernel("gemm", 400)
                run.wait()
            run.host(300)
        with run.operator("aten::relu"):
            run.kernel("relu", 400)
    first = analyse(run.trace())["findings"][0]
    assert first["kind"] == "wait"
    assert "makes the CPU wait for the GPU 2 times" in first["title"]
    assert "step" not in first["title"]
    assert not first["evidence"]["stepping"]


def test_a_wait_that_the_first_step_of_a_recording_lacks_is_in_every_step():
    run = Program()
    for number in range(10):
        with run.range(f"step_{number}"), run.python("own.py(1): main"):
            with run.operator("aten::addmm"):
                run.kernel("gemm", 400)
            if number:
                run.item()
            run.host(100)
    assert "in every step" in analyse(run.trace())["findings"][0]["title"]
