"""Causes name the line to change and predict the gain, compared with the real gain: simulated and on an H200."""

import pytest

from kernellab.analysis.document import analyse
from kernellab.traces import kineto
from support.klab import HERE
from support.traced import Training, fetching

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
def slowed_traces():
    return {variant: kineto.read(HERE / "samples" / f"slowed_{variant}_h200.json.gz") for variant in SLOWED}


@pytest.mark.parametrize("variant", SLOWED)
def test_on_an_h200_the_first_finding_names_the_cause_the_line_and_the_gain(monkeypatch, slowed_traces, variant):
    monkeypatch.syspath_prepend(str(HERE.parent / "benchmarks"))
    kind, code, slow_us, fixed_us = SLOWED[variant]
    finding = analyse(slowed_traces[variant], plain_step_us=slow_us)["findings"][0]
    assert (finding["kind"], finding["exact"]) == (kind, True)
    assert code in finding["code"]
    assert f"slowed_mlp.py:{finding['line']}" in finding["title"]
    assert finding["gain_us"] == pytest.approx(slow_us - fixed_us, rel=0.3)


@pytest.mark.parametrize("variant", SLOWED)
def test_the_cause_is_the_same_without_the_plain_time_and_the_source(slowed_traces, variant):
    document = analyse(slowed_traces[variant])
    finding = document["findings"][0]
    assert (finding["kind"], finding["exact"]) == (SLOWED[variant][0], False)
    assert f"{finding['function']}() (slowed_mlp.py:{finding['line']})" in finding["title"]
    assert any("A typical profiler overhead" in note for note in document["notes"])


@pytest.mark.usefixtures("no_profiler_overhead")
@pytest.mark.parametrize(("load_us", "copy_us", "kind", "other"), [(3000, 400, "loader", "to"), (80, 900, "copy", "")])
def test_the_causes_of_one_line_are_one_finding_with_their_joint_gain(tmp_path, load_us, copy_us, kind, other):
    slow, plain = fetching(tmp_path, load_us, copy_us), fetching(tmp_path, 0, 0)
    steps_us = [max(run.now, *run.free.values()) / 9e3 for run in (slow, plain)]
    finding, *others = analyse(slow.trace())["findings"]
    assert (finding["kind"], finding["line"], finding["exact"]) == (kind, 2, True)
    assert finding["gain_us"] == pytest.approx(steps_us[0] - steps_us[1], rel=0.05)
    assert not [row for row in others if row["line"] == 2]
    if other:
        assert f"the same line's {other}() copies to the GPU" in finding["title"]
        assert "workers" in finding["do"]
        assert "non_blocking" in finding["do"]


@pytest.mark.parametrize(
    ("gpu_us", "beginning"),
    [
        (2, "Launch-bound:"),
        (3, "Launch-bound, unless it is the profiler"),
        (5, "Perhaps launch-bound"),
        (60, "GPU-bound"),
    ],
)
def test_launch_bound_is_reported_with_its_confidence(tmp_path, gpu_us, beginning):
    training = Training(tmp_path, gpu_us=gpu_us)
    assert analyse(training.trace)["findings"][0]["title"].startswith(beginning)
    # If the time of a step is certain, there is no doubt.
    certain = analyse(training.trace, plain_step_us=training.step_us)["findings"][0]
    assert certain["title"].startswith("Launch-bound:" if gpu_us < 60 else "GPU-bound:")
