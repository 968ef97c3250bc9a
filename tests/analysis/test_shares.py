"""Where the time, the memory and the bytes of a program that was made up went: operators, modules, ranges, chains."""

import numpy as np
import pytest

from kernellab.analysis.document import analyse
from kernellab.traces.trace import Kind
from kernellab.traceview.row_tree import RowTree
from support.traced import AUTOGRAD, GEMM, LAYERS, MUL, Program, Training, as_nsys_sees_it, named


def test_operators_are_charged_for_the_kernels_they_started_and_called_for():
    run = Program()
    with run.operator("aten::square", [64, 64]), run.operator("aten::pow", [64, 64], []):
        run.kernel(MUL, 30)
    with run.operator("aten::pow", [64, 64], []):
        run.kernel(MUL, 12)
    document = analyse(run.trace())
    square, power = (named(document["operators"], name) for name in ("aten::square", "aten::pow"))
    assert (square["self_gpu_us"], square["total_gpu_us"]) == (0, 30)
    assert (power["self_gpu_us"], power["total_gpu_us"], power["count"]) == (42, 42, 2)
    assert [(k["name"], k["through"], k["count"]) for k in square["kernels"]] == [(MUL, "aten::pow", 1)]
    (kernel,) = document["kernels"]
    assert (kernel["count"], kernel["gpu_us"], kernel["share"], kernel["family"]) == (2, 42, 1, "elementwise")
    assert kernel["operators"] == [{"name": "aten::pow", "count": 2, "gpu_us": 42}]


def test_an_operator_in_one_of_its_own_name_is_counted_once():
    run = Program()
    with run.operator("aten::mean", us=10), run.operator("aten::mean", us=20):
        run.kernel(MUL, 30)
    mean = named(analyse(run.trace())["operators"], "aten::mean")
    assert mean["total_gpu_us"] == 30
    assert mean["total_cpu_us"] == pytest.approx(35, abs=0.1)


def test_products_of_other_sizes_show_other_kernels():
    run = Program()
    for size, kernel in ((128, "gemv2T"), (1024, GEMM), (1024, GEMM)):
        with run.operator("aten::mm", [size, size], [size, size]):
            run.kernel(kernel, size / 10)
    shapes = named(analyse(run.trace())["operators"], "aten::mm")["shapes"]
    assert [(s["shapes"][0], s["count"], s["kernels"]) for s in shapes] == [
        ([1024, 1024], 2, {GEMM: 2}),
        ([128, 128], 1, {"gemv2T": 1}),
    ]


def test_modules_get_their_backward_from_another_thread(tmp_path):
    training = Training(tmp_path, steps=3, gpu_us=20)
    modules = analyse(training.trace)["modules"]
    assert len(modules) == 1 + LAYERS
    model = modules[0]
    assert model["path"] == ["MLP_0"]
    assert model["total_gpu_us"] == 3 * LAYERS * (20 + 2 * 20 + 3 + 3)
    assert model["self_gpu_us"] == 3 * LAYERS * (3 + 3)
    for one in modules[1:]:
        assert one["path"][0] == "MLP_0"
        assert (one["total_gpu_us"], one["backward_gpu_us"]) == (180, 120)


def test_the_tree_of_ranges_is_of_an_average_step_and_the_same_from_both_sources(tmp_path):
    trace = Training(tmp_path, steps=5).trace
    tree = analyse(trace)["ranges"]
    assert analyse(as_nsys_sees_it(trace))["ranges"] == tree
    assert [("  " * one["depth"] + one["name"]) for one in tree] == [
        "step", "  forward", *(f"    layer_{i}" for i in range(LAYERS)), "  backward", "  optimizer_step",
    ]  # fmt: skip
    by_name = {one["name"]: one for one in tree}
    assert by_name["layer_3"]["gpu_us"] == 20
    assert by_name["backward"]["gpu_us"] == LAYERS * 43
    assert by_name["step"]["gpu_us"] == LAYERS * 66 + 10
    assert by_name["step"]["count"] == 1
    assert by_name["step"]["cpu_us"] > by_name["forward"]["cpu_us"] > by_name["layer_0"]["cpu_us"] > 0


def test_a_range_called_step_is_not_taken_for_a_step():
    run = Program()
    for step in range(4):
        with run.range(f"step_{step}"):
            run.kernel(MUL, 5)
            with run.range("step"):
                run.kernel(MUL, 2)
    found = [(one["path"], one["count"], one["gpu_us"]) for one in analyse(run.trace())["ranges"]]
    assert found == [(["step"], 1, 7), (["step", "step"], 1, 2)]


def test_ranges_of_pytorchs_own_are_left_out_of_the_tree_but_not_their_kernels():
    run = Program()
    with run.range("step_0"), run.range("optimizer_step"), run.range("Optimizer.step#Adam.step"):
        run.kernel(MUL, 7)
    assert [(one["name"], one["gpu_us"]) for one in analyse(run.trace())["ranges"]] == [
        ("step", 7),
        ("optimizer_step", 7),
    ]


def chain(*operators, us=10.0, size=4096):
    run = Program()
    for name, *inputs in operators:
        with run.operator(f"aten::{name}", *(inputs or [[size, size]])):
            run.kernel(GEMM if name == "mm" else MUL, us)
    return analyse(run.trace())["fusion"]


def test_a_chain_moves_each_result_twice_and_fused_only_its_ends():
    (found,) = chain(("mul",), ("tanh",), ("add",))
    tensor = 4096 * 4096 * 4
    assert found["operators"] == ["aten::mul", "aten::tanh", "aten::add"]
    assert (found["moved_bytes"], found["fewest_bytes"]) == (6 * tensor, 2 * tensor)
    assert found["chain_us"] == 30
    assert found["fused_us"] == pytest.approx(10)


def test_a_product_ends_a_chain_and_another_shape_begins_a_new_one():
    assert chain(("mul",), ("mm",), ("tanh",)) == []
    assert chain(("mul", [64, 64]), ("tanh", [32, 32])) == []
    bias = chain(("mul",), ("add", [4096, 4096], [4096]))
    assert bias[0]["fewest_bytes"] == (2 * 4096 * 4096 + 4096) * 4


def test_memory_at_its_peak_is_held_by_what_was_under_way_when_it_was_asked_for():
    run = Program()

    def hold(size, total, address):
        run.builder.add_allocation(run.now, size, total, 0, address, run.builder.lane(run.thread))
        run.host(1)

    with run.python("own.py(1): <module>"), run.range("step_0"):
        with run.module("Linear_0"), run.operator("aten::addmm", sequence=run.forward()):
            hold(100, 1100, 1)
            hold(40, 1140, 2)
            run.kernel(GEMM, 5)
        hold(-40, 1100, 2)
        with run.on(AUTOGRAD), run.operator("autograd::engine::evaluate_function: AddmmBackward0", sequence=1):
            hold(300, 1400, 3)
        hold(-100, 1300, 1)
    memory = analyse(run.trace())["memory"]
    assert memory["peak_bytes"] == 1400
    held = {one["name"]: one["bytes"] for one in memory["categories"]}
    assert held == {
        "before the trace began (parameters, states)": 1000,
        "gradients and backward": 300,
        "activations": 100,
    }
    assert memory["modules"] == [{"path": ["Linear_0"], "bytes": 400}]
    largest = memory["largest"][0]
    assert largest["bytes"] == 300
    assert largest["freed_us"] is None
    assert largest["stack"] == ["own.py(1): <module>"]
    assert [total for _, total in memory["timeline"]] == [1100, 1140, 1100, 1400, 1300]


def test_nests_find_parents_paths_and_totals_at_any_depth():
    run = Program()
    with run.range("a"):
        with run.range("b"), run.range("a"):
            run.host(1)
        with run.range("c"):
            run.host(1)
    trace = run.trace()
    nest = RowTree(trace, trace.rows(Kind.RANGE))
    assert nest.parent.tolist() == [-1, 0, 1, 0]
    assert nest.depth.tolist() == [0, 1, 2, 1]
    assert nest.first_of_name().tolist() == [True, True, False, True]
    assert nest.totals(np.array([1, 1, 1, 1])).tolist() == [4, 2, 1, 1]
    numbers, known = nest.paths(nest.name)
    assert [[trace.names[n] for n in known[k]] for k in numbers] == [["a"], ["a", "b"], ["a", "b", "a"], ["a", "c"]]
    middle = nest.begin[[2, 3]] + 100
    assert nest.around(nest.lane[[2, 3]], middle).tolist() == [2, 3]
    assert nest.around(nest.lane[[0]], nest.end[[0]]).tolist() == [-1]
