"""Questions asked of traces whose answers are known, because the programs were made up."""

import json
import random
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kernellab.errors import UserError
from kernellab.profiling import replay
from kernellab.profiling.analysed import analyse
from kernellab.profiling.compared import compare
from kernellab.profiling.nest import Nest
from kernellab.profiling.source import Frame, Sources, called, whose
from kernellab.profiling.view import View
from kernellab.reporting import collected
from kernellab.reporting.changes import lines as compared_lines
from kernellab.reporting.profile import lines
from kernellab.traces import kineto
from kernellab.traces.trace import Builder, Kind, Lane
from traced import AUTOGRAD, GELU, GEMM, LAYERS, MAIN, MUL, Program, Training, as_nsys_sees_it

# What slows a training, the finding it must lead with, and the line of the script.
CULPRITS = {
    "print": ("wait", 18, "print(loss)"),
    "item": ("wait", 20, "record(total + loss.item())"),
    "copy": ("copy", 14, 'inputs = data.to("cuda")'),
    "loader": ("loader", 12, "for data in loader:"),
    "host": ("host", 19, "batch()"),
    "gelu": ("fusion", 5, "torch.tanh"),
}


def named(rows, name):
    return next(row for row in rows if row["name"] == name)


# Findings


@pytest.mark.parametrize("slowed", CULPRITS)
@pytest.mark.parametrize("gpu_us", [2, 20], ids=["launch-bound", "gpu-bound"])
@pytest.mark.usefixtures("costs_nothing")
def test_the_first_finding_names_the_line_at_fault_and_what_its_removal_gains(tmp_path, slowed, gpu_us):
    slow, plain = Training(tmp_path, slowed, gpu_us=gpu_us), Training(tmp_path, gpu_us=gpu_us)
    document = analyse(slow.trace)
    gained = slow.step_us - plain.step_us
    found = document["findings"][0]
    kind, line, code = CULPRITS[slowed]
    assert (found["kind"], found["file"], found["line"], found["exact"]) == (kind, "train.py", line, True)
    assert code in found["code"]
    assert f"train.py:{line}" in lines(document)[0]
    assert found["gain_us"] == pytest.approx(gained, rel=0.1)
    assert found["step_us"] == pytest.approx(slow.step_us, rel=0.05)


def test_work_on_a_waiting_line_that_dwarfs_the_wait_is_a_cause_of_its_own():
    run = Program()
    with run.python("own.py(1): <module>"):
        for step in range(5):
            with run.range(f"step_{step}"):
                with run.python("<built-in method randn of type object at 0x1>"), run.operator("aten::randn", us=5000):
                    pass
                with run.python("<built-in method to of Tensor object at 0x1>"), run.operator("aten::to"):
                    run.copy("HtoD (Pageable -> Device)", 40, 1 << 20)
    kinds = [(one["kind"], one["call"]) for one in analyse(run.trace())["findings"]]
    assert kinds[0] == ("host", "randn")


@pytest.mark.usefixtures("costs_nothing")
def test_the_first_step_pays_for_the_profilers_start_and_is_not_replayed():
    run = Program()
    for step in range(6):
        with run.range(f"step_{step}"), run.operator("aten::mm", us=9000 if step == 0 else 100):
            run.kernel(GEMM, 10)
    summary = analyse(run.trace())["summary"]
    assert summary["steps"] == 6
    assert summary["step_us"] > 1000 > 200 > summary["replayed_step_us"] > 100


def test_a_wait_inside_the_models_own_work_is_unblocked_not_removed():
    run = Program()
    with run.python("own.py(1): <module>"):
        for step in range(5):
            with run.range(f"step_{step}"), run.module("Router_0"):
                for part in range(10):
                    with run.operator("aten::mm", us=30):
                        run.kernel(GEMM, 60)
                    if part == 5:
                        run.item()
    found = analyse(run.trace())["findings"][0]
    assert found["kind"] == "wait"
    # The GPU has 10 products and a copy to do whatever waits: only its idle time can be gained.
    assert 0 < found["gain_us"] < found["step_us"] - 10 * 60


@pytest.mark.parametrize("gpu_us", [2, 60])
@pytest.mark.usefixtures("costs_nothing")
def test_of_a_long_trace_steps_from_its_middle_stand_for_all(tmp_path, monkeypatch, gpu_us):
    training = Training(tmp_path, gpu_us=gpu_us, steps=30)
    monkeypatch.setattr(replay, "_MOST_CALLS", 400)
    document = analyse(training.trace)
    assert document["summary"]["replayed_step_us"] == pytest.approx(training.step_us, rel=0.03)


def test_a_replay_far_from_what_was_seen_is_doubted(tmp_path):
    training = Training(tmp_path, gpu_us=60, steps=5)
    assert not any(note.startswith("The replay gives") for note in analyse(training.trace)["notes"])
    # Nothing in these steps can have taken so much longer.
    assert any(note.startswith("The replay gives") for note in analyse(training.trace, plain_step_us=9000)["notes"])


def test_nothing_is_found_at_fault_in_a_step_that_is_all_gpu_work(tmp_path):
    (only,) = analyse(Training(tmp_path, gpu_us=60).trace)["findings"]
    assert only["kind"] == "busy"
    assert only["title"].startswith("GPU-bound")
    assert not only["gain_us"]


@pytest.mark.usefixtures("costs_nothing")
def test_small_work_is_launch_bound_and_says_where_the_model_is_called(tmp_path):
    training = Training(tmp_path, gpu_us=2)
    (only,) = analyse(training.trace)["findings"]
    assert only["kind"] == "launch"
    assert only["code"] == "loss = model(inputs)"
    busy = analyse(training.trace)["idle"]["busy_fraction"]
    assert busy < 0.3
    assert only["step_without_us"] < 0.5 * only["step_us"]


@pytest.mark.usefixtures("costs_nothing")
def test_launches_are_blamed_for_what_a_mended_line_leaves(tmp_path):
    findings = analyse(Training(tmp_path, "loader", gpu_us=2).trace)["findings"]
    assert [one["kind"] for one in findings] == ["loader", "launch"]
    assert findings[1]["step_us"] < 0.3 * findings[0]["step_us"]


@pytest.mark.parametrize("slowed", ["print", "loader", "gelu"])
def test_a_step_timed_without_the_profiler_takes_its_share_out_of_gains(tmp_path, slowed):
    seen = Training(tmp_path, slowed, gpu_us=2, row_ns=6000)
    slow, plain = Training(tmp_path, slowed, gpu_us=2), Training(tmp_path, gpu_us=2)
    assert seen.step_us > 1.05 * slow.step_us
    document = analyse(seen.trace, plain_step_us=slow.step_us)
    found = document["findings"][0]
    assert found["kind"] == CULPRITS[slowed][0]
    assert found["step_us"] == pytest.approx(slow.step_us, rel=0.02)
    assert found["gain_us"] == pytest.approx(slow.step_us - plain.step_us, rel=0.3)
    assert document["summary"]["plain_busy_fraction"] == pytest.approx(
        analyse(slow.trace)["idle"]["busy_fraction"], rel=0.02
    )
    assert document["summary"]["profiler_operator_ns"] == pytest.approx(6000, rel=0.3)
    assert not any("not known" in note for note in document["notes"])


# Where the time went


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


def test_a_range_outlives_the_python_call_that_began_it():
    run = Program()
    name, main = run.builder.name, run.builder.lane(run.thread)
    run.builder.add(Kind.PYTHON, name("own.py(1): <module>"), main, 0, 100_000)
    run.builder.add(Kind.PYTHON, name("torch/autograd/profiler.py(9): __enter__"), main, 1_000, 5_000)
    run.builder.add(Kind.RANGE, name("step_0"), main, 3_000, 80_000)
    run.builder.add(Kind.PYTHON, name("<built-in method item of Tensor object at 0x1>"), main, 20_000, 30_000)
    run.now = 25_000
    run.kernel(MUL, 5)
    run.wait()
    (point,) = analyse(run.trace())["sync_points"]
    assert (point["file"], point["call"], point["count"]) == ("own.py", "item", 1)


# Waits and gaps


def test_each_line_that_waits_is_listed_once_with_the_idle_time_that_followed(tmp_path):
    training = Training(tmp_path, "print", gpu_us=20, steps=6)
    (point,) = analyse(training.trace)["sync_points"]
    assert (point["file"], point["line"], point["call"], point["count"]) == ("train.py", 18, "print", 6)
    assert point["cuda"] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    assert point["pageable_copies"] == 12
    assert point["wait_us"] > 0
    assert 5 * 10 < point["idle_us"] < 6 * 60


def test_waits_without_python_are_named_by_operator():
    run = Program()
    for step in range(3):
        with run.range(f"step_{step}"):
            with run.operator("aten::mm"):
                run.kernel(GEMM, 50)
            run.item()
    document = analyse(run.trace())
    (point,) = document["sync_points"]
    assert (point["file"], point["call"]) == (None, "aten::item")
    assert document["findings"][0]["title"].startswith("aten::item makes the CPU wait")


def test_waits_seen_by_nsight_systems_are_named_by_the_range_they_are_in():
    run = Program("nsys")
    for step in range(3):
        with run.range(f"step_{step}"):
            run.kernel(GEMM, 50)
            with run.range("loss"):
                run.wait()
            run.wait("cudaDeviceSynchronize")
    calls = {point["call"] for point in analyse(run.trace())["sync_points"]}
    assert calls == {"cudaStreamSynchronize in loss", "cudaDeviceSynchronize in a step"}


def test_the_profilers_own_wait_is_nobodys_fault():
    run = Program()
    with run.python("own.py(1): <module>"):
        with run.operator("aten::mm"):
            run.kernel(GEMM, 500)
        with run.python("torch/profiler/profiler.py(900): stop"):
            run.wait("cudaDeviceSynchronize")
    assert analyse(run.trace())["sync_points"] == []


def test_gaps_know_what_the_cpu_was_doing(tmp_path):
    def causes(*slowed, gpu_us=20.0):
        found = analyse(Training(tmp_path, *slowed, gpu_us=gpu_us).trace)["idle"]
        return found["busy_fraction"], found["gaps"][0]["cause"], found["gaps"][0]["cpu"]

    for slowed, cause in (("loader", "loader"), ("host", "host"), ("print", "wait")):
        busy, found, _ = causes(slowed, gpu_us=30)
        assert found == cause
        assert 0 < busy < 1
    assert causes(gpu_us=2)[1] == "launch"
    assert "for data in loader" in causes("loader")[2]


def test_the_queue_is_deep_where_the_cpu_runs_ahead_and_empty_where_it_does_not(tmp_path):
    ahead, behind = (analyse(Training(tmp_path, gpu_us=us).trace)["idle"] for us in (60, 1))
    assert ahead["ahead_us"] > 1000
    assert max(one["kernels"] for one in ahead["queue"]) > 50
    assert behind["ahead_us"] < 5
    assert max(one["kernels"] for one in behind["queue"]) <= 2
    assert behind["launch_bound"]
    assert not ahead["launch_bound"]


def test_two_streams_are_busy_together_once():
    run = Program()
    with run.operator("aten::mm"):
        run.kernel(GEMM, 100, stream=7)
        run.kernel(GEMM, 100, stream=8)
    document = analyse(run.trace())
    assert document["summary"]["gpu_us"] == 200
    assert 100 < document["summary"]["gpu_busy_us"] < 110


# Fusion


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


# Memory


def test_memory_at_its_peak_is_held_by_what_was_under_way_when_it_was_asked_for():
    run = Program()

    def hold(size, total, address):
        run.builder.allocate(run.now, size, total, 0, address, run.builder.lane(run.thread))
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


# Two traces


def test_what_got_slower_comes_first(tmp_path):
    before, after = Training(tmp_path), Training(tmp_path, "gelu")
    found = compare(before.trace, after.trace)
    assert found["by"] == "gpu"
    assert found["step_us"]["ratio"] > 1
    slower, faster = found["kernels"][0], found["kernels"][-1]
    assert slower["name"] == MUL
    assert slower["b_us"] == 8 * 18 * 3
    assert slower["b_count"] == 144
    assert faster["name"] == GELU
    assert (faster["a_us"], faster["b_us"], faster["ratio"]) == (24, 0, 0)
    assert named(found["operators"], "aten::addmm")["change_us"] == 0
    told = compared_lines(found, rows=3, name_width=30)
    assert "a step takes 2.1" in told[0]
    assert told[0].endswith("Most of the change: aten::mul, +336 µs.")
    kernels = next(at for at, line in enumerate(told) if line.startswith("kernels"))
    assert told[kernels + 1].startswith(MUL[:29])
    assert compared_lines(compare(before.trace, before.trace))[0].endswith("No operator's time changed.")


# Source lines


def test_lines_are_told_apart_by_the_calls_around_them(tmp_path):
    body = ["for x in m:", "    a = x.item()", "    m.backward()", "    b = x.item()", "return a"]
    (tmp_path / "two.py").write_text("\n    ".join(["def train(m):", *body]))
    function = Sources([tmp_path]).function(Frame("two.py", 1, "train"))
    assert function.line(["item"], [], ["backward"]) == 3
    assert function.line(["item"], ["backward"], []) == 5
    assert function.line(["item"], ["backward"], ["__next__"]) == 5  # the loop comes round
    assert function.line(["backward"], [], []) == 4
    assert function.line(["__next__"], [], []) == 2
    assert function.line(["cpu"], [], []) is None
    assert Sources([tmp_path]).function(Frame("gone.py", 1, "train")) is None


def test_a_script_named_like_a_module_of_python_is_the_users_all_the_same(tmp_path):
    script = tmp_path / "code.py"
    script.write_text("\n\nvalue.item()\n")
    run = Program(script=script)
    with run.python("code.py(1): <module>"), run.python("<built-in method item of Tensor object at 0x1>"):
        run.item()
    (point,) = analyse(run.trace())["sync_points"]
    assert (point["file"], point["line"], point["code"]) == ("code.py", 3, "value.item()")


def test_waits_that_no_python_call_made_are_found_by_what_could_have_made_them(tmp_path):
    script = tmp_path / "own.py"
    loop = ["y = model(x)", "seen += float(y)", "y.backward()", "if y > 3:", "    stop()"]
    script.write_text("\n    ".join(["while True:", *loop]))
    run = Program(script=script)
    with run.python("own.py(1): <module>"):
        for step in range(2):
            with run.range(f"step_{step}"):
                with run.module("Net_0"), run.operator("aten::mm"):
                    run.kernel(GEMM, 5)
                run.item()
                with run.python("torch/_tensor.py(9): backward"), run.operator("aten::mm"):
                    run.kernel(GEMM, 5)
                with run.operator("aten::is_nonzero"):
                    run.item()
    points = analyse(run.trace())["sync_points"]
    found = {(one["line"], one["code"], one["call"], one["count"]) for one in points}
    assert found == {(3, "seen += float(y)", "item", 2), (5, "if y > 3:", "is_nonzero", 2)}


def test_names_of_rows_say_whose_they_are():
    assert called("<built-in method item of Tensor object at 0x7f>") == "item"
    assert called("torch/_tensor.py(566): backward") == "backward"
    assert whose("torch/nn/modules/linear.py(130): forward") == 0
    assert whose("typing.py(359): inner") == 0
    assert whose("<built-in function print>") == 0
    assert whose("numpy/core.py(3): f") == 0
    assert whose("rich/console.py(3): f") == 1
    assert whose("kernellab/workloads/mlp.py(3): f") == 1
    assert whose("kernellab/collecting/session.py(3): f") == 0
    assert whose("my_model.py(3): f") == 2
    assert whose("/home/me/model.py(3): f") == 2
    assert whose("/usr/lib/python3.12/site-packages/torch/x.py(3): f") == 0


# The table


def test_nests_find_parents_paths_and_totals_at_any_depth():
    run = Program()
    with run.range("a"):
        with run.range("b"), run.range("a"):
            run.host(1)
        with run.range("c"):
            run.host(1)
    trace = run.trace()
    nest = Nest(trace, trace.rows(Kind.RANGE))
    assert nest.parent.tolist() == [-1, 0, 1, 0]
    assert nest.depth.tolist() == [0, 1, 2, 1]
    assert nest.first_of_name().tolist() == [True, True, False, True]
    assert nest.totals(np.array([1, 1, 1, 1])).tolist() == [4, 2, 1, 1]
    numbers, known = nest.paths(nest.name)
    assert [[trace.names[n] for n in known[k]] for k in numbers] == [["a"], ["a", "b"], ["a", "b", "a"], ["a", "c"]]
    middle = nest.begin[[2, 3]] + 100
    assert nest.around(nest.lane[[2, 3]], middle).tolist() == [2, 3]
    assert nest.around(nest.lane[[0]], nest.end[[0]]).tolist() == [-1]


# The words


def test_the_first_lines_answer_and_names_are_cut(tmp_path):
    document = analyse(Training(tmp_path, "print", gpu_us=10).trace)
    told = lines(document, rows=2, name_width=20)
    assert told[0].startswith("print(loss) at train.py:18 makes the CPU wait for the GPU in every step")
    assert "Without it a step takes about" in told[0]
    assert "" in told[:11]
    head = told.index("Operators")
    assert told[head + 2].startswith("aten::mm ")
    assert told[head + 4].startswith("… and")
    assert all(len(line.split("  ")[0]) <= 20 for line in told[head + 2 : head + 4])
    by_count = lines(document, sort="count")
    assert by_count[by_count.index("Operators") + 2].split()[1] == str(
        max(one["count"] for one in document["operators"])
    )


@pytest.fixture
def terminal(monkeypatch):
    def of(columns):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")

    return of


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_gets_wrapped_sentences_and_narrow_tables(tmp_path, terminal, columns):
    document = analyse(Training(tmp_path, "print", gpu_us=2).trace)
    piped = lines(document)
    terminal(columns)
    told = lines(document)
    assert max(map(len, piped)) > 100
    assert max(map(len, told)) <= columns
    assert " ".join(" ".join(told).split()).startswith(" ".join(piped[0].split()))
    kernels = told[told.index("Kernels") :]
    assert kernels[1].split()[:3] == ["kernel", "runs", "GPU"]
    assert any(line.startswith("A wider terminal shows: ") for line in kernels[: kernels.index("")])
    assert not any("wider" in line for line in piped)
    compared = compared_lines(compare(Training(tmp_path, gpu_us=2).trace, Training(tmp_path, "gelu", gpu_us=2).trace))
    assert max(map(len, compared)) <= columns
    assert all("change" in line for line in compared if line.startswith(("operators", "kernels")))


@pytest.mark.parametrize("columns", [40, 60])
def test_what_is_said_around_a_profile_fits_a_narrow_terminal(terminal, columns):
    layers = [{"layer": "layer_0", "forward_us": 1234.5, "backward_us": 567.8}]
    rank = {"all_reduces": 9, "all_reduce_us": 2e5, "wait_us": 5e4, "collective_us": 9e5, "collectives": 9}
    ranks = [{**rank, "rank": number, "came_last": 3, "layers": layers} for number in range(4)]
    stretches = [{"phase": phase, "cycle": 1, "first": 0, "last": 99} for phase in ("wait", "warm-up", "active")]
    session = {"steps": stretches, "step_us": 13760.0, "plain_step_us": 10580.0, "notes": ["a " * 60], "traces": []}
    terminal(columns)
    together = collected.together({"ranks": ranks, "matched": 9, "uneven": False})
    assert max(map(len, [*together, *collected.about(session, Path())])) <= columns
    layer = next(line for line in together if line.startswith("layer_0"))
    assert layer.count("1.234 ms + 567.8 µs") == layer.count("+") > 0  # figures are not cut
    assert "A wider terminal shows: " in "\n".join(together)


def test_of_many_ranges_the_dearest_are_shown_in_their_order():
    run = Program()
    with run.range("whole"):
        for number in range(50):
            with run.range(f"part {number}"):
                run.host(100 if number in (20, 30) else 1)
    told = lines(analyse(run.trace()), rows=3)
    told = told[told.index("Ranges, all together") :]
    assert [line.split("  1")[0].rstrip() for line in told[2:5]] == ["whole", "  part 20", "  part 30"]
    assert told[5:] == ["… and 48 more"]


def test_a_trace_of_nothing_says_so_once_and_compares_with_nothing(tmp_path):
    nothing = tmp_path / "nothing.json"
    nothing.write_text('{"traceEvents": []}')
    empty = kineto.read(nothing)
    told = "\n".join(lines(analyse(empty)))
    assert told.count("no events") == 1
    assert "1 ns" not in told
    some = Training(tmp_path, gpu_us=2).trace
    for pair in ((empty, some), (some, empty)):
        assert compared_lines(compare(*pair))[0].startswith("One of the traces has no steps to compare")


def test_kernels_that_nothing_started_are_not_replayed():
    builder = Builder("kineto")
    lane = builder.lane(Lane("GPU 0", "stream 7", 0, 7))
    for number in range(5):
        builder.add(Kind.KERNEL, builder.name("k"), lane, number * 100_000, 50_000, link=number + 1)
    document = analyse(builder.trace())
    assert "busy 56% of a step" in document["findings"][0]["title"]
    assert document["findings"][0]["step_us"] == 450
    assert not any("replay gives" in note for note in document["notes"])
    assert any("cannot be replayed" in note for note in document["notes"])


def test_an_unknown_order_is_refused_in_words():
    with pytest.raises(UserError, match="did you mean gpu"):
        lines(analyse(Program().trace()), sort="gpus")


def test_what_a_terminal_would_obey_is_not_passed_on():
    run = Program()
    with run.operator("aten::\x1b[2Jmm\n<script>"):
        run.kernel("kernel\x1b]0;title\x07" + "x" * 100_000, 5)
    told = lines(analyse(run.trace()))
    assert not any(c in "\x1b\x07\n" for line in told for c in line)
    assert max(map(len, told)) < 500


@pytest.mark.parametrize("rows", ["none", "cpu"])
def test_traces_without_a_gpu_or_without_anything_are_answered_too(rows):
    run = Program()
    if rows == "cpu":
        with run.python("own.py(1): <module>"), run.operator("aten::sort", us=500):
            pass
    document = analyse(run.trace())
    json.dumps(document)
    told = lines(document)
    assert told[0].startswith("Nothing ran" if rows == "none" else "CPU only: 100% of its time is aten::sort")
    assert document["idle"]["busy_fraction"] is None
    assert document["notes"]
    if rows == "cpu":
        assert document["operators"][0]["self_cpu_us"] == pytest.approx(500, abs=1)
        assert document["findings"][0]["file"] == "own.py"


def optimizing(names, shapes=(), *, ending=True, **steps):
    """Optimizers take turns, 100 µs each; `ending`: the recording ends with the last one's step."""
    run = Program()
    if steps:
        run.builder.about["kernellab"] = {"steps": [{"phase": "active", "cycle": 1, **steps}]}
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
    run.builder.about["kernellab"] = {"steps": [{"phase": "active", "cycle": 1, "first": 0, "last": 2}]}
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
    run.builder.about["kernellab"] = {"steps": said}
    with run.range("Optimizer.step#SGD.step"):
        pass
    assert not View(run.trace()).steps.marked


LOADED = """\
for epoch in range(3):
    for x, y in DataLoader(numbers, batch_size=4, num_workers=2, drop_last=True):
        for again in range(2):
            optimizer.zero_grad(); model(x).backward(); optimizer.step()
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_without_a_gpu_is_told_by_its_own_line_and_advised_by_what_it_has(tmp_path, workers):
    script = tmp_path / "own.py"
    script.write_text(LOADED)
    run = Program(script=script)
    with run.python("own.py(1): <module>"):
        for number in range(4):
            with run.range(f"step_{number}"):
                with run.python("torch/utils/data/dataloader.py(700): __next__"):
                    if workers:
                        with run.python("torch/utils/data/dataloader.py(1278): _try_get_data"):
                            run.host(900)
                    run.host(900)
                for called in ("zero_grad", "backward", "step") * 2:
                    with run.python(f"torch/somewhere.py(3): {called}"), run.operator("aten::mul", us=20):
                        pass
    first = analyse(run.trace())["findings"][0]
    assert (first["kind"], first["line"]) == ("loader", 2)
    assert first["title"].startswith("The data loader holds the program up: for x, y in DataLoader(")
    assert "GPU" not in first["title"]
    assert ("do not keep up" in first["do"]) == bool(workers)
    assert ("Give the DataLoader workers" in first["do"]) == (not workers)


def test_without_a_gpu_pythons_time_counts_beside_operators():
    run = Program()
    with run.python("own.py(9): main"):
        for _ in range(3):
            with run.python("own.py(2): slow"):
                run.host(900)
            with run.operator("aten::addmm", us=20):
                run.host(10)
    document = analyse(run.trace())
    told = lines(document)
    assert told[0] == "CPU only: 97% of its time is Python's in slow() (own.py:2); operators have 3%."
    assert document["findings"][0]["line"] == 2
    assert "2.79 ms in all" in told[1]
    assert told[2] == "Operators have 3 % of the CPU's time, Python 97 %; most of theirs: aten::addmm, 100 %."


def test_python_alone_is_an_answer_and_calls_of_others_count_for_the_users_line(tmp_path):
    script = tmp_path / "own.py"
    script.write_text("import time\n\n\ndef main():\n    time.sleep(1)\n")
    run = Program(script=script)
    with run.python("own.py(4): main"), run.python("<built-in function sleep>"):
        run.host(1000)
    told = lines(analyse(run.trace()))
    assert told[0] == "CPU only: 100% of its time is Python's in time.sleep(1) at own.py:5; operators have 0%."
    assert "1 ms in all" in told[1]


def test_what_recording_takes_is_not_the_programs():
    run = Program()
    with run.python("kernellab/collecting/script.py(30): run"):
        with run.python("own.py(4): main"):
            run.host(100)
        with run.python("kernellab/collecting/session.py(9): _later"), run.python("threading.py(5): start"):
            run.host(900)
    assert lines(analyse(run.trace()))[0].startswith("CPU only: 100% of its time is Python's in main() (own.py:4)")
    run = Program()
    with run.python("kernellab/collecting/session.py(9): _later"), run.python("threading.py(5): start"):
        run.host(900)
    assert lines(analyse(run.trace()))[0].startswith("Nothing ran")


def test_time_between_operators_that_nothing_is_known_of_is_not_theirs():
    run = Program()
    for _ in range(2):
        with run.operator("aten::sort", us=100):
            pass
        run.host(600)
    with run.operator("aten::sort", us=100):
        pass
    told = lines(analyse(run.trace()))
    assert told[0] == "CPU only: 20% of its time is aten::sort; all operators have 20%."
    assert "the rest was not recorded" in told[2]


# Genuine traces


SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(scope="module")
def training():
    return analyse(kineto.read(SAMPLES / "training_h200.json.gz"))


def test_a_real_trainings_wait_is_found_in_the_users_function(training):
    (point,) = training["sync_points"]
    assert (point["file"], point["function"], point["call"], point["count"]) == ("mlp_trace.py", "step", "item", 3)
    assert training["summary"]["steps"] == 3
    assert training["summary"]["devices"] == ["NVIDIA H200"]


def test_a_real_trainings_kernels_all_find_their_operator_module_and_range(training):
    assert not any("no call that started" in note for note in training["notes"])
    on_gpu = sum(kernel["gpu_us"] for kernel in training["kernels"])
    assert sum(one["self_gpu_us"] for one in training["operators"]) == pytest.approx(on_gpu, rel=0.001)
    step = training["ranges"][0]
    assert (step["name"], step["gpu_us"]) == ("step", pytest.approx(on_gpu / 3, rel=0.001))
    model, *layers = training["modules"]
    assert (model["name"], len(layers)) == ("MLP_0", 8)
    assert all(0 < layer["backward_gpu_us"] < layer["total_gpu_us"] < model["total_gpu_us"] for layer in layers)
    backward = named(training["ranges"], "backward")
    # The mean's own backward is of no module.
    assert model["backward_gpu_us"] == pytest.approx(3 * backward["gpu_us"], rel=0.05)


def test_a_real_replay_takes_as_long_as_the_steps_did(training):
    summary = training["summary"]
    assert summary["replayed_profiled_us"] == pytest.approx(summary["step_us"], rel=0.02)


def test_what_operators_really_became():
    document = analyse(kineto.read(SAMPLES / "matmuls_h200.json.gz"))
    (kernel,) = named(document["operators"], "aten::square")["kernels"]
    assert kernel["through"] == "aten::pow"
    assert "pow_tensor_scalar_kernel" in kernel["name"]
    shapes = named(document["operators"], "aten::mm")["shapes"]
    assert [one["shapes"][0][0] for one in shapes] == [8192, 2048, 1024, 128]
    assert len({next(iter(one["kernels"])) for one in shapes}) == 4


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_make_no_sense_together_are_analysed_all_the_same(seed):
    draw = random.Random(seed)
    builder = Builder("kineto")
    lanes = [builder.lane(lane) for lane in (MAIN, AUTOGRAD, Lane("GPU 0", "s", 0, 7), Lane("GPU 1", "s", 1, 7))]
    names = ["step_1", "step_2", "aten::mm", "aten::item", "cudaLaunchKernel", "cudaStreamSynchronize", MUL, "",
             "own.py(3): f", "<built-in function print>", "autograd::engine::evaluate_function: X"]  # fmt: skip
    details = [{}, {"shapes": [[4, 4], []], "types": ["float", "Scalar"]}, {"shapes": "x", "types": 3},
               {"shapes": [None, 5, [[2], [3]], [-4]], "types": ["float"] * 4}, {"bytes": 77}]  # fmt: skip
    for _ in range(draw.choice([1, 30, 200])):
        detail = draw.randrange(len(details))
        builder.add(
            draw.choice(list(Kind)), builder.name(draw.choice(names)), draw.choice(lanes),
            draw.choice([-50, draw.randrange(1000), draw.randrange(10**6)]), draw.choice([-7, 0, 500, 10**6, 10**12]),
            link=draw.randrange(6), sequence=draw.randrange(4), detail=builder.detail(str(detail), details[detail]),
        )  # fmt: skip
        builder.allocate(draw.randrange(10**6), draw.choice([100, -100]), draw.randrange(500), 0, draw.randrange(3), 0)
    trace = builder.trace()
    document = analyse(trace, plain_step_us=draw.choice([None, 1.0, 1e5]))
    json.dumps(document, allow_nan=False)
    assert lines(document)
    step_us = compare(trace, trace)["step_us"]
    assert step_us["ratio"] == (1 if document["summary"]["step_us"] else None)
    assert 0 <= (document["idle"]["busy_fraction"] or 0) <= 1


@pytest.mark.parametrize("file", ["x" * 3000 + ".py", "nul\0.py", "antigravity.a.b/x.py", "../" * 50 + "x.py", "/.py"])
def test_files_no_one_can_have_are_no_ones_and_nothing_is_imported_to_find_out(file, tmp_path):
    run = Program(script=tmp_path / "own.py")
    with run.python(f"{file}(3): f"), run.python("<built-in method item of Tensor object at 0x1>"):
        run.item()
    assert len(analyse(run.trace())["sync_points"]) == 1
    assert "antigravity" not in sys.modules


def test_a_name_of_megabytes_costs_no_time():
    run = Program()
    with run.operator("sm1_" * 2_000_000):
        run.kernel("sm1_" * 2_000_000, 5)
    began = time.perf_counter()
    told = lines(analyse(run.trace()))
    assert time.perf_counter() - began < 2
    assert max(map(len, told)) < 500
