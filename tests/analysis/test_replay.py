"""A replayed step takes as long as the measured one and predicts the gain of a change."""

import pytest

from kernellab.analysis.document import analyse
from kernellab.analysis.replay import Change, Replay
from kernellab.traces import kineto
from kernellab.traceview.view import View
from support.klab import HERE
from support.traced import GEMM, Program, Training


def test_the_replay_of_a_training_on_an_h200_takes_as_long_as_measured():
    training = analyse(kineto.read(HERE / "samples" / "training_h200.json.gz"))
    summary = training["summary"]
    assert summary["replayed_profiled_us"] == pytest.approx(summary["step_us"], rel=0.02)


def test_the_gpu_work_of_a_step_is_the_sum_of_its_kernels():
    finding = analyse(kineto.read(HERE / "samples" / "slowed_tiny_batch_h200.json.gz"))["findings"][0]
    # 3489.86 µs of kernels in six steps; with the pauses between them a step still takes longer than that.
    assert finding["evidence"]["gpu_us"] == pytest.approx(3489.86 / 6, rel=0.005)
    assert "to launch 582 µs of GPU work" in finding["title"]
    assert finding["step_without_us"] > 700


@pytest.mark.usefixtures("no_profiler_overhead")
def test_a_few_steps_predict_the_gain_of_a_long_training(tmp_path):
    slow, plain = (Training(tmp_path, *slowed, gpu_us=20, steps=80).step_us for slowed in (["print"], []))
    finding = analyse(Training(tmp_path, "print", gpu_us=20, steps=5).trace)["findings"][0]
    assert finding["gain_us"] == pytest.approx(slow - plain, rel=0.05)


@pytest.mark.usefixtures("no_profiler_overhead")
def test_a_step_that_launches_nothing_is_not_replayed_before_others():
    run = Program()
    for step in range(6):
        with run.range(f"step_{step}"):
            run.host(100)
            if step:
                with run.operator("aten::mm", us=50):
                    run.kernel(GEMM, 10)
    view = View(run.trace())
    replay = Replay(view, view.gpu_rows[:0])
    assert replay.step_ns_with(Change()) == pytest.approx(replay.measured_step_ns, rel=0.05)
