"""Two traces are compared by step, operator and kernel."""

from kernellab.analysis.comparison import compare
from support.traced import GELU, MUL, Training, named


def test_what_got_slower_comes_first(tmp_path):
    before, after = Training(tmp_path), Training(tmp_path, "gelu")
    document = compare(before.trace, after.trace)
    assert document["by"] == "gpu"
    assert document["step_us"]["ratio"] > 1
    slower, faster = document["kernels"][0], document["kernels"][-1]
    assert slower["name"] == MUL
    assert slower["b_us"] == 8 * 18 * 3
    assert slower["b_count"] == 144
    assert faster["name"] == GELU
    assert (faster["a_us"], faster["b_us"], faster["ratio"]) == (24, 0, 0)
    assert named(document["operators"], "aten::addmm")["change_us"] == 0


def test_steps_are_compared_without_the_profiler_if_both_traces_state_that_time(tmp_path):
    before, after = Training(tmp_path, steps=3).trace, Training(tmp_path, "host", steps=3).trace
    assert compare(before, after)["step_us"]["as_profiled"]
    before.metadata["kernellab"]["plain_step_us"] = 100.0
    assert compare(before, after)["step_us"]["as_profiled"]
    after.metadata["kernellab"]["plain_step_us"] = 250.0
    assert compare(before, after)["step_us"] == {"a": 100, "b": 250, "ratio": 2.5, "as_profiled": False}
