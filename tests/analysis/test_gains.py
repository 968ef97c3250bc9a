"""What findings say is gained, held against what was gained: on paper, and on an H200."""

from pathlib import Path

import pytest

from kernellab.analysis.comparison import compare
from kernellab.analysis.document import analyse
from kernellab.analysis.replay import Change, Replay
from kernellab.traces import kineto
from kernellab.traceview.places import Place
from kernellab.traceview.view import View
from support.klab import HERE
from support.traced import GEMM, Program, Training

# Of each variant of benchmarks/slowed_mlp.py: the finding, its code, and microseconds per step with the mistake and
# without it, measured without a profiler on the H200 the traces are from.
SLOWED = {
    "print_loss": ("wait", "loss.item()", 4480, 4213),
    "tiny_batch": ("launch", "y = model(x)", 2410, 630),
    "unfused_gelu": ("fusion", "torch.tanh(inner)", 5777, 4227),
    "blocking_copy": ("copy", "y.detach().cpu()", 10600, 4225),
    "starving_loader": ("loader", "next(loader).to(device)", 53200, 4253),
}


@pytest.fixture(scope="module")
def traces():
    return {variant: kineto.read(HERE / "samples" / f"slowed_{variant}_h200.json.gz") for variant in SLOWED}


@pytest.mark.parametrize("variant", SLOWED)
def test_on_an_h200_the_first_line_names_the_cause_the_line_and_the_gain(monkeypatch, traces, variant):
    monkeypatch.syspath_prepend(str(HERE.parent / "benchmarks"))
    kind, code, slow_us, mended_us = SLOWED[variant]
    found = analyse(traces[variant], plain_step_us=slow_us)["findings"][0]
    assert (found["kind"], found["exact"]) == (kind, True)
    assert code in found["code"]
    assert f"slowed_mlp.py:{found['line']}" in found["title"]
    assert found["gain_us"] == pytest.approx(slow_us - mended_us, rel=0.3)


@pytest.mark.parametrize("variant", SLOWED)
def test_the_cause_is_the_same_where_the_plain_time_and_the_source_are_not_known(traces, variant):
    document = analyse(traces[variant])
    found = document["findings"][0]
    assert (found["kind"], found["exact"]) == (SLOWED[variant][0], False)
    assert f"{found['function']}() (slowed_mlp.py:{found['line']})" in found["title"]
    assert any("charged what they usually cost" in note for note in document["notes"])


def test_a_place_whose_line_is_not_known_is_named_by_its_function():
    assert str(Place("own.py", 62, "train", "cpu")) == "cpu() in train() (own.py:62)"
    assert str(Place("own.py", 62, "train", "")) == "train() (own.py:62)"
    assert str(Place("own.py", 1, "<module>", "item")) == "item() in own.py"
    assert str(Place("own.py", 69, "train", "cpu", "y.cpu()", exact=True)) == "y.cpu() at own.py:69"


# What one line does


def fetching(folder: Path, load_us: float, copy_us: float) -> Program:
    script = folder / "fetch.py"
    script.write_text('for number in range(9):\n    x = next(loader).to("cuda")\n    model(x)\n')
    run = Program(script=script)
    with run.python("fetch.py(1): <module>"):
        for step in range(9):
            with run.range(f"step_{step}"):
                if load_us:
                    with (
                        run.python("<built-in function next>"),
                        run.python("torch/utils/data/dataloader.py(700): __next__"),
                    ):
                        run.host(load_us)
                if copy_us:
                    with run.python("<built-in method to of Tensor object at 0x1>"), run.operator("aten::to"):
                        run.copy("HtoD (Pageable -> Device)", copy_us, 1 << 20)
                with run.module("MLP_0"):
                    for _ in range(10):
                        with run.operator("aten::mm"):
                            run.kernel(GEMM, 30)
    return run


@pytest.mark.usefixtures("costs_nothing")
@pytest.mark.parametrize(("load_us", "copy_us", "kind", "other"), [(3000, 400, "loader", "to"), (80, 900, "copy", "")])
def test_what_one_line_does_is_one_finding_and_gains_all_of_it(tmp_path, load_us, copy_us, kind, other):
    slow, plain = fetching(tmp_path, load_us, copy_us), fetching(tmp_path, 0, 0)
    took = [max(run.now, *run.free.values()) / 9e3 for run in (slow, plain)]
    found, *others = analyse(slow.trace())["findings"]
    assert (found["kind"], found["line"], found["exact"]) == (kind, 2, True)
    assert found["gain_us"] == pytest.approx(took[0] - took[1], rel=0.05)
    assert not [one for one in others if one["line"] == 2]
    if other:
        assert f"the same line's {other}() copies to the GPU" in found["title"]
        assert "workers" in found["do"]
        assert "non_blocking" in found["do"]


# The profiler's part


def test_what_takes_longer_unwatched_is_what_no_profiler_slows(tmp_path):
    seen = Training(tmp_path, "loader", gpu_us=20, row_ns=6000)
    plain = Training(tmp_path, gpu_us=20)
    unwatched_us = seen.step_us + 1500
    document = analyse(seen.trace, plain_step_us=unwatched_us)
    found = document["findings"][0]
    assert found["kind"] == "loader"
    assert found["step_us"] == pytest.approx(unwatched_us, rel=0.01)
    assert found["gain_us"] == pytest.approx(unwatched_us - plain.step_us, rel=0.1)
    assert any("times as long as was seen" in note for note in document["notes"])


@pytest.mark.usefixtures("costs_nothing")
def test_a_copy_of_pageable_memory_can_take_longer_unwatched(tmp_path):
    slow, plain = (fetching(tmp_path, 0, copy_us) for copy_us in (900, 0))
    took = [max(run.now, *run.free.values()) / 9e3 for run in (slow, plain)]
    found = analyse(slow.trace(), plain_step_us=took[0] + 700)["findings"][0]
    assert found["kind"] == "copy"
    assert found["gain_us"] == pytest.approx(took[0] + 700 - took[1], rel=0.05)


def test_rows_are_charged_less_where_nothing_else_explains_the_time(tmp_path):
    training = Training(tmp_path, gpu_us=2)
    document = analyse(training.trace, plain_step_us=0.97 * training.step_us)
    assert document["summary"]["replayed_step_us"] == pytest.approx(0.97 * training.step_us, rel=0.01)
    assert document["findings"][0]["kind"] == "launch"
    assert not any("as long as was seen" in note for note in document["notes"])


def test_a_program_slowed_by_its_profiler_is_not_called_launch_bound(tmp_path):
    seen = Training(tmp_path, "print", gpu_us=30, row_ns=9000)
    without = Training(tmp_path, "print", gpu_us=30)
    assert seen.step_us > 1.3 * without.step_us
    assert analyse(seen.trace)["findings"][0]["kind"] == "wait"
    mended = analyse(Training(tmp_path, gpu_us=30, row_ns=9000).trace)
    assert mended["idle"]["busy_fraction"] < 0.8
    assert mended["findings"][0]["title"].startswith("GPU-bound")


def test_a_loader_does_not_make_rows_look_dear(tmp_path):
    with_it, without = (Training(tmp_path, *slowed, gpu_us=2, row_ns=6000).trace for slowed in (["loader"], []))
    costs = [analyse(trace)["summary"]["profiler_operator_ns"] for trace in (with_it, without)]
    assert costs[0] == pytest.approx(costs[1], rel=0.05)


@pytest.mark.parametrize(
    ("gpu_us", "said"),
    [
        (2, "Launch-bound:"),
        (3, "Launch-bound, unless it is the profiler"),
        (5, "Perhaps launch-bound"),
        (60, "GPU-bound"),
    ],
)
def test_launches_are_blamed_with_the_doubt_there_is(tmp_path, gpu_us, said):
    training = Training(tmp_path, gpu_us=gpu_us)
    assert analyse(training.trace)["findings"][0]["title"].startswith(said)
    # Where a step's time is known, there is no doubt.
    known = analyse(training.trace, plain_step_us=training.step_us)["findings"][0]
    assert known["title"].startswith("Launch-bound:" if gpu_us < 60 else "GPU-bound:")


def test_shapes_and_python_calls_make_a_profiler_dearer():
    def charged(*, python: bool, shapes: bool) -> float:
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

    none, some, both = (charged(python=p, shapes=s) for p, s in [(False, False), (False, True), (True, True)])
    assert 0 < none < some < both
    assert charged(python=True, shapes=False) == pytest.approx(some, rel=0.05)


# Steps


@pytest.mark.usefixtures("costs_nothing")
def test_what_is_asked_for_after_the_last_step_is_of_none():
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


def test_what_the_cpu_does_after_the_last_step_is_of_none():
    run = Program()
    with run.python("own.py(1): <module>"):
        for _ in range(8):
            with run.range("Optimizer.step#Adam.step"), run.operator("aten::_foreach_add_"):
                run.kernel(GEMM, 500)
            with run.python("own.py(9): save"), run.operator("aten::clone", us=3000):
                pass
    trace = run.trace()
    found = analyse(trace)["findings"][0]
    assert (found["kind"], found["call"], found["evidence"]["per_step"]) == ("host", "save", 1)


@pytest.mark.usefixtures("costs_nothing")
def test_a_few_steps_tell_what_a_long_training_gains(tmp_path):
    slow, plain = (Training(tmp_path, *slowed, gpu_us=20, steps=80).step_us for slowed in (["print"], []))
    found = analyse(Training(tmp_path, "print", gpu_us=20, steps=5).trace)["findings"][0]
    assert found["gain_us"] == pytest.approx(slow - plain, rel=0.05)


@pytest.mark.usefixtures("costs_nothing")
def test_a_step_that_asks_for_nothing_leads_no_others():
    run = Program()
    for step in range(6):
        with run.range(f"step_{step}"):
            run.host(100)
            if step:
                with run.operator("aten::mm", us=50):
                    run.kernel(GEMM, 10)
    view = View(run.trace())
    again = Replay(view, view.gpu[:0])
    assert again.step_with(Change()) == pytest.approx(again.seen_step_ns, rel=0.05)
