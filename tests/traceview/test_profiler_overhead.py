"""The profiler's own time is subtracted from the program's."""

import pytest

from kernellab.analysis.document import analyse
from support.traced import GEMM, Program, Training, fetching


def test_a_step_that_is_longer_without_the_profiler_has_longer_unprofiled_spans(tmp_path):
    profiled = Training(tmp_path, "loader", gpu_us=20, row_ns=6000)
    plain = Training(tmp_path, gpu_us=20)
    plain_us = profiled.step_us + 1500
    document = analyse(profiled.trace, plain_step_us=plain_us)
    finding = document["findings"][0]
    assert finding["kind"] == "loader"
    assert finding["step_us"] == pytest.approx(plain_us, rel=0.01)
    assert finding["gain_us"] == pytest.approx(plain_us - plain.step_us, rel=0.1)
    assert any("times as long as measured" in note for note in document["notes"])


@pytest.mark.usefixtures("no_profiler_overhead")
def test_a_copy_of_pageable_memory_can_be_longer_without_the_profiler(tmp_path):
    slow, plain = (fetching(tmp_path, 0, copy_us) for copy_us in (900, 0))
    steps_us = [max(run.now, *run.free.values()) / 9e3 for run in (slow, plain)]
    finding = analyse(slow.trace(), plain_step_us=steps_us[0] + 700)["findings"][0]
    assert finding["kind"] == "copy"
    assert finding["gain_us"] == pytest.approx(steps_us[0] + 700 - steps_us[1], rel=0.05)


def test_the_overhead_per_event_is_lower_if_nothing_else_explains_the_time(tmp_path):
    training = Training(tmp_path, gpu_us=2)
    document = analyse(training.trace, plain_step_us=0.97 * training.step_us)
    assert document["summary"]["replayed_step_us"] == pytest.approx(0.97 * training.step_us, rel=0.01)
    assert document["findings"][0]["kind"] == "launch"
    assert not any("as long as measured" in note for note in document["notes"])


def test_a_program_slowed_by_its_profiler_is_not_called_launch_bound(tmp_path):
    profiled = Training(tmp_path, "print", gpu_us=30, row_ns=9000)
    without = Training(tmp_path, "print", gpu_us=30)
    assert profiled.step_us > 1.3 * without.step_us
    assert analyse(profiled.trace)["findings"][0]["kind"] == "wait"
    fixed = analyse(Training(tmp_path, gpu_us=30, row_ns=9000).trace)
    assert fixed["idle"]["busy_fraction"] < 0.8
    assert fixed["findings"][0]["title"].startswith("GPU-bound")


def test_a_loader_does_not_raise_the_overhead_per_event(tmp_path):
    with_it, without = (Training(tmp_path, *slowed, gpu_us=2, row_ns=6000).trace for slowed in (["loader"], []))
    costs = [analyse(trace)["summary"]["profiler_operator_ns"] for trace in (with_it, without)]
    assert costs[0] == pytest.approx(costs[1], rel=0.05)


def test_shapes_and_python_calls_raise_the_overhead_per_event():
    def operator_ns(*, python: bool, shapes: bool) -> float:
        run = Program()
        for step in range(6):
            with run.range(f"step_{step}"):
                for _ in range(20):
                    with run.operator("aten::mm", *([[8, 8]] if shapes else [])):
                        run.kernel(GEMM, 1)
                if python:
                    with run.python("own.py(1): step"):
                        pass
        return float(analyse(run.trace())["summary"]["profiler_operator_ns"])

    neither, shapes, both = (operator_ns(python=p, shapes=s) for p, s in [(False, False), (False, True), (True, True)])
    assert 0 < neither < shapes < both
    assert operator_ns(python=True, shapes=False) == pytest.approx(shapes, rel=0.05)
