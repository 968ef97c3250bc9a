"""Findings of synthetic programs: the line at fault, what fixing it gains, and their order."""

import pytest

from kernellab.analysis import replay
from kernellab.analysis.document import analyse
from kernellab.reporting.profiles.summary import lines
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane
from support.traced import GEMM, Program, Training

# What slows a training: the kind of the first finding, and the line of the script.
CULPRITS = {
    "print": ("wait", 18, "print(loss)"),
    "item": ("wait", 20, "record(total + loss.item())"),
    "copy": ("copy", 14, 'inputs = data.to("cuda")'),
    "loader": ("loader", 12, "for data in loader:"),
    "host": ("host", 19, "batch()"),
    "gelu": ("fusion", 5, "torch.tanh"),
}


@pytest.mark.parametrize("slowed", CULPRITS)
@pytest.mark.parametrize("gpu_us", [2, 20], ids=["launch-bound", "gpu-bound"])
@pytest.mark.usefixtures("no_profiler_overhead")
def test_the_first_finding_names_the_line_at_fault_and_what_fixing_it_gains(tmp_path, slowed, gpu_us):
    slow, plain = Training(tmp_path, slowed, gpu_us=gpu_us), Training(tmp_path, gpu_us=gpu_us)
    document = analyse(slow.trace)
    first = document["findings"][0]
    kind, line, code = CULPRITS[slowed]
    assert (first["kind"], first["file"], first["line"], first["exact"]) == (kind, "train.py", line, True)
    assert code in first["code"]
    assert f"train.py:{line}" in lines(document)[0]
    assert first["gain_us"] == pytest.approx(slow.step_us - plain.step_us, rel=0.1)
    assert first["step_us"] == pytest.approx(slow.step_us, rel=0.05)


def test_work_far_longer_than_the_wait_on_its_line_is_a_separate_cause():
    run = Program()
    with run.python("own.py(1): <module>"):
        for step in range(5):
            with run.range(f"step_{step}"):
                with run.python("<built-in method randn of type object at 0x1>"), run.operator("aten::randn", us=5000):
                    pass
                with run.python("<built-in method to of Tensor object at 0x1>"), run.operator("aten::to"):
                    run.copy("HtoD (Pageable -> Device)", 40, 1 << 20)
    kinds = [(finding["kind"], finding["call"]) for finding in analyse(run.trace())["findings"]]
    assert kinds[0] == ("host", "randn")


@pytest.mark.usefixtures("no_profiler_overhead")
def test_the_first_step_includes_the_profilers_start_and_is_not_replayed():
    run = Program()
    for step in range(6):
        with run.range(f"step_{step}"), run.operator("aten::mm", us=9000 if step == 0 else 100):
            run.kernel(GEMM, 10)
    summary = analyse(run.trace())["summary"]
    assert summary["steps"] == 6
    assert summary["step_us"] > 1000 > 200 > summary["replayed_step_us"] > 100


def test_a_wait_inside_the_models_own_work_is_unblocked_and_not_removed():
    run = Program()
    with run.python("own.py(1): <module>"):
        for step in range(5):
            with run.range(f"step_{step}"), run.module("Router_0"):
                for part in range(10):
                    with run.operator("aten::mm", us=30):
                        run.kernel(GEMM, 60)
                    if part == 5:
                        run.item()
    first = analyse(run.trace())["findings"][0]
    assert first["kind"] == "wait"
    # The GPU has 10 products and a copy to do in any case: only its idle time can be gained.
    assert 0 < first["gain_us"] < first["step_us"] - 10 * 60


@pytest.mark.parametrize("gpu_us", [2, 60])
@pytest.mark.usefixtures("no_profiler_overhead")
def test_of_a_long_trace_only_steps_from_its_middle_are_replayed(tmp_path, monkeypatch, gpu_us):
    training = Training(tmp_path, gpu_us=gpu_us, steps=30)
    monkeypatch.setattr(replay, "_MAX_CALLS", 400)
    document = analyse(training.trace)
    assert document["summary"]["replayed_step_us"] == pytest.approx(training.step_us, rel=0.03)


def test_a_replay_far_from_the_recorded_time_gets_a_note(tmp_path):
    training = Training(tmp_path, gpu_us=60, steps=5)
    assert not any(note.startswith("The replay gives") for note in analyse(training.trace)["notes"])
    # Nothing in these steps can have taken so much longer.
    assert any(note.startswith("The replay gives") for note in analyse(training.trace, plain_step_us=9000)["notes"])


def test_a_step_of_gpu_work_alone_has_no_cause(tmp_path):
    (only,) = analyse(Training(tmp_path, gpu_us=60).trace)["findings"]
    assert only["kind"] == "busy"
    assert only["title"].startswith("GPU-bound")
    assert not only["gain_us"]


@pytest.mark.usefixtures("no_profiler_overhead")
def test_small_work_is_launch_bound_at_the_line_that_calls_the_model(tmp_path):
    training = Training(tmp_path, gpu_us=2)
    (only,) = analyse(training.trace)["findings"]
    assert only["kind"] == "launch"
    assert only["code"] == "loss = model(inputs)"
    busy = analyse(training.trace)["idle"]["busy_fraction"]
    assert busy < 0.3
    assert only["step_without_us"] < 0.5 * only["step_us"]


@pytest.mark.usefixtures("no_profiler_overhead")
def test_launches_come_after_the_lines_that_their_gain_assumes_fixed(tmp_path):
    for slowed, larger in (("loader", True), ("print", False)):
        line, launch = analyse(Training(tmp_path, slowed, gpu_us=2).trace)["findings"]
        assert (line["kind"], launch["kind"]) == (CULPRITS[slowed][0], "launch")
        assert (line["gain_us"] > launch["gain_us"]) is larger
        assert launch["step_us"] == pytest.approx(line["step_without_us"], rel=0.01)


@pytest.mark.usefixtures("no_profiler_overhead")
def test_findings_are_ranked_by_gain(tmp_path):
    """Two lines at fault in a step that the GPU bounds: neither gain assumes the other."""
    findings = analyse(Training(tmp_path, "print", "loader", gpu_us=20).trace)["findings"]
    gains = [finding["gain_us"] for finding in findings]
    assert {finding["kind"] for finding in findings} >= {"wait", "loader"}
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("slowed", ["print", "loader", "gelu"])
def test_a_step_timed_without_the_profiler_removes_its_overhead_from_gains(tmp_path, slowed):
    seen = Training(tmp_path, slowed, gpu_us=2, row_ns=6000)
    slow, plain = Training(tmp_path, slowed, gpu_us=2), Training(tmp_path, gpu_us=2)
    assert seen.step_us > 1.05 * slow.step_us
    document = analyse(seen.trace, plain_step_us=slow.step_us)
    first = document["findings"][0]
    assert first["kind"] == CULPRITS[slowed][0]
    assert first["step_us"] == pytest.approx(slow.step_us, rel=0.02)
    assert first["gain_us"] == pytest.approx(slow.step_us - plain.step_us, rel=0.3)
    assert document["summary"]["plain_busy_fraction"] == pytest.approx(
        analyse(slow.trace)["idle"]["busy_fraction"], rel=0.02
    )
    assert document["summary"]["profiler_operator_ns"] == pytest.approx(6000, rel=0.3)
    assert not any("not known" in note for note in document["notes"])


def test_kernels_without_a_recorded_launch_are_not_replayed():
    builder = TraceBuilder("kineto")
    lane = builder.lane(Lane("GPU 0", "stream 7", 0, 7))
    for number in range(5):
        builder.add(Kind.KERNEL, builder.name("k"), lane, number * 100_000, 50_000, link=number + 1)
    document = analyse(builder.build())
    assert "busy 56% of a step" in document["findings"][0]["title"]
    assert document["findings"][0]["step_us"] == 450
    assert not any("replay gives" in note for note in document["notes"])
    assert any("cannot be replayed" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("first_us", "stepping", "kind"),
    [(9000, False, "setup"), (200, False, "launch"), (9000, True, "launch")],
    ids=["a long first call", "a short one", "a long one before steps"],
)
@pytest.mark.usefixtures("no_profiler_overhead")
def test_a_first_call_that_takes_most_of_a_trace_is_set_up_time(first_us, stepping, kind):
    run = Program()
    for call in range(20):
        us = first_us if call == 0 else 50
        with run.range(f"step_{call}" if stepping else f"batch {call}"), run.operator("aten::pow", us=us):
            run.kernel(GEMM, 5)
    assert analyse(run.trace())["findings"][0]["kind"] == kind


@pytest.mark.usefixtures("no_profiler_overhead")
def test_loading_in_the_only_call_of_an_operator_is_set_up_time():
    run = Program()
    with run.operator("aten::mm"):
        run.kernel(GEMM, 5)
    with run.operator("aten::fft"):
        run.builder.add(
            Kind.OTHER, run.builder.name("Lazy Function Loading"), run.builder.lane(Lane("profiler", "overhead")),
            run.now, 2_000_000,
        )  # fmt: skip
        run.host(2000)
        run.kernel(GEMM, 5)
    first = analyse(run.trace())["findings"][0]
    assert (first["kind"], first["evidence"]["setup_us"]) == ("setup", 2000)
