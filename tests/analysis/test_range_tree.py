"""The tree of ranges shows an average step."""

from kernellab.analysis.document import analyse
from support.traced import LAYERS, MUL, Program, Training, as_recorded_by_nsys


def test_the_tree_shows_an_average_step_and_is_the_same_from_both_profilers(tmp_path):
    trace = Training(tmp_path, steps=5).trace
    tree = analyse(trace)["ranges"]
    assert analyse(as_recorded_by_nsys(trace))["ranges"] == tree
    assert [("  " * node["depth"] + node["name"]) for node in tree] == [
        "step", "  forward", *(f"    layer_{i}" for i in range(LAYERS)), "  backward", "  optimizer_step",
    ]  # fmt: skip
    by_name = {node["name"]: node for node in tree}
    assert by_name["layer_3"]["gpu_us"] == 20
    assert by_name["backward"]["gpu_us"] == LAYERS * 43
    assert by_name["step"]["gpu_us"] == LAYERS * 66 + 10
    assert by_name["step"]["count"] == 1
    assert by_name["step"]["cpu_us"] > by_name["forward"]["cpu_us"] > by_name["layer_0"]["cpu_us"] > 0


def test_a_range_named_step_is_not_a_step():
    run = Program()
    for step in range(4):
        with run.range(f"step_{step}"):
            run.kernel(MUL, 5)
            with run.range("step"):
                run.kernel(MUL, 2)
    nodes = [(node["path"], node["count"], node["gpu_us"]) for node in analyse(run.trace())["ranges"]]
    assert nodes == [(["step"], 1, 7), (["step", "step"], 1, 2)]


def test_ranges_of_pytorch_are_left_out_but_their_kernels_are_counted():
    run = Program()
    with run.range("step_0"), run.range("optimizer_step"), run.range("Optimizer.step#Adam.step"):
        run.kernel(MUL, 7)
    assert [(node["name"], node["gpu_us"]) for node in analyse(run.trace())["ranges"]] == [
        ("step", 7),
        ("optimizer_step", 7),
    ]
