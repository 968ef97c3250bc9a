"""Steps are found by ranges, by the optimizer, or by the calls of the model."""

import numpy as np
import pytest

from kernellab.analysis.comparison import compare
from kernellab.analysis.document import analyse
from kernellab.traceview.steps import is_step, mask_step_number
from kernellab.traceview.view import View
from support.traced import GEMM, Program


@pytest.mark.parametrize(
    ("name", "masked"),
    [("step_7", "step_*"), ("ProfilerStep#12", "ProfilerStep#*"), ("step 3 (active)", "step * (active)")],
)
def test_numbered_steps_are_recognised(name, masked):
    assert is_step(name)
    assert mask_step_number(name) == masked


@pytest.mark.parametrize("name", ["step", "layer_0", "my step_7", "step_x"])
def test_other_ranges_are_not_steps(name):
    assert not is_step(name)
    assert mask_step_number(name) == name


def serving(calls, *, named="Model_0"):
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


def test_calls_of_the_model_are_steps_if_nothing_else_marks_them():
    steps = View(serving(6)).steps
    assert (steps.count, steps.module, steps.marked) == (5, "Model", True)
    assert np.diff(steps.begin) == pytest.approx(100_000, rel=0.02)
    assert any("each call of Model counts as a step" in note for note in analyse(serving(6))["notes"])
    assert not View(serving(3)).steps.marked  # three calls are not a loop


def test_a_program_without_steps_gets_no_times_per_step():
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


def test_a_wait_missing_only_from_the_first_recorded_step_is_in_every_step():
    run = Program()
    for number in range(10):
        with run.range(f"step_{number}"), run.python("own.py(1): main"):
            with run.operator("aten::addmm"):
                run.kernel("gemm", 400)
            if number:
                run.item()
            run.host(100)
    assert "in every step" in analyse(run.trace())["findings"][0]["title"]


@pytest.mark.usefixtures("no_profiler_overhead")
def test_work_launched_after_the_last_step_belongs_to_no_step():
    run = Program()
    with run.python("own.py(1): <module>"):
        for _ in range(8):
            with run.operator("aten::mm"):
                run.kernel(GEMM, 500)
            with run.range("Optimizer.step#Adam.step"), run.operator("aten::_foreach_add_"):
                run.kernel(GEMM, 500)
            with run.python("own.py(9): save"):
                run.host(900)
            with run.python("<built-in method cpu of Tensor object at 0x1>"), run.operator("aten::to"):
                run.copy("DtoH (Device -> Pageable)", 300, 1 << 20)
    trace = run.trace()
    document = analyse(trace)
    assert document["summary"]["steps"] == 7
    assert View(trace).gpu_in_steps.sum() == 7 * 3
    assert document["sync_points"][0]["count"] == 7
    (copy,) = document["findings"]
    assert copy["evidence"]["per_step"] == 1
    assert {row["a_count"] for row in compare(trace, trace)["operators"]} == {1}
    # Without it the GPU has its two products to do, one after the other.
    assert copy["step_without_us"] == pytest.approx(2 * 500 + 2, abs=2)
    assert copy["gain_us"] == pytest.approx(300, rel=0.15)


def test_cpu_work_after_the_last_step_belongs_to_no_step():
    run = Program()
    with run.python("own.py(1): <module>"):
        for _ in range(8):
            with run.range("Optimizer.step#Adam.step"), run.operator("aten::_foreach_add_"):
                run.kernel(GEMM, 500)
            with run.python("own.py(9): save"), run.operator("aten::clone", us=3000):
                pass
    trace = run.trace()
    finding = analyse(trace)["findings"][0]
    assert (finding["kind"], finding["call"], finding["evidence"]["per_step"]) == ("host", "save", 1)
