"""`klab bench`: passes, the panel of all timers, and what it refuses."""

import csv
import io
import json

import pytest

PASSES = """
import torch, kernellab as kl

@kl.op(cases=kl.cases(shape=[(64, 64)], dtype=["float32"]))
def cube(x):
    return x * x * x

@cube.impl("python-flat")
def _(x):
    return x.detach() ** 3

class Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * x * g

@cube.impl("python-wrong-gradient")
def _(x):
    return Late.apply(x)

@cube.impl("python-greedy", grad_in_forward=True)
def _(x):
    return x.pow(3)

@cube.impl("python-huge")
def _(x):
    return x**3 + torch.empty(1 << 48).sum() if x.requires_grad else x**3
"""


def test_passes_are_checked_and_timed_apart(klab, tmp_path):
    (tmp_path / "cube.py").write_text(PASSES)
    args = ("--pass", "forward,backward,both", "--seconds", "0.1", "--device", "cpu", "--json")
    seen = klab("bench", "cube.py", "--impl", "manual,python*", *args)
    assert seen.code == 1
    manual = seen.result("manual")
    assert [t["pass"] for t in manual["times"]] == ["forward", "backward", "both"]
    assert all(t["samples_us"] for t in manual["times"])
    passes = manual["derived"]["passes"]
    assert passes["both"]["time"]["median_us"] > passes["forward"]["time"]["median_us"]
    assert set(manual["memory"]) == {"forward", "backward", "both"}
    assert manual["cost"]["both"]["bytes_read"] > manual["cost"]["forward"]["bytes_read"]
    flat = seen.result("python-flat")
    assert (flat["derived"]["status"], flat["gradients"]["status"]) == ("ok", "skipped")
    assert "not differentiable" in flat["gradients"]["reason"]
    assert [t["pass"] for t in flat["times"]] == ["forward"]
    wrong = seen.result("python-wrong-gradient")["derived"]
    assert (wrong["status"], wrong["reason"].startswith("its gradient: values")) == ("wrong", True)
    assert any("in the forward pass" in g["detail"] for g in seen.result("python-greedy")["guards"])
    huge = seen.result("python-huge")
    assert huge["derived"]["status"] == "oom"
    assert huge["gradients"]["needed_bytes"] > 1 << 48


def test_the_panel_and_other_series(klab):
    args = ("--shape", "64x64", "--impl", "manual,torch", "--panel", "--verbose", "--seconds", "0.1", "--out", "run")
    seen = klab("bench", "square", *args, "--device", "cpu")
    assert seen.code == 0
    assert "calls a window" in seen.out
    nothing = klab("bench", "square", "--pin", "run")
    assert (nothing.code, "no autotuner chose anything" in nothing.err) == (2, True)
    assert "clock, cold" in seen.out
    assert "clock, warm" in seen.out
    assert "first call" in seen.out
    refused = klab("bench", "square", "--timer", "events", "--device", "cpu")
    assert (refused.code, "no such timer on cpu" in refused.err) == (2, True)
    for args in (("--cache", "lukewarm"), ("--pass", "sideways"), ("--precision", "x"), ("--pin", "nowhere")):
        refused = klab("bench", "square", *args, "--device", "cpu")
        assert (refused.code, refused.err.count("\n")) == (2, 1), args


def test_both_passes_together_are_timed_and_have_no_findings_of_the_forward_pass(klab):
    seen = klab(
        "bench",
        "add",
        "--impl",
        "torch",
        "--shape",
        "32x32",
        "--pass",
        "both",
        "--device=cpu",
        "--seconds=0.05",
        "--json",
    )
    assert seen.code == 0, seen.err
    assert seen.result("torch")["derived"]["findings"] == []


def test_energy_is_measured_or_the_reason_is_said(klab, tmp_path):
    args = ("--impl", "manual,torch", "--shape", "32x32", "--device", "cpu", "--seconds", "0.05", "--only-times")
    seen = klab("bench", "square", *args, "--energy", "--quick", "--out", "run")
    assert seen.code == 0, seen.err
    results = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    energy = next(result for result in results if result["impl"] == "torch")["times"][0]["energy"]
    if energy["status"] == "ok":  # where root runs the tests, on a machine that counts
        assert len(energy["joules"]) == 8
        assert " energy " in seen.out
    else:
        assert f"energy is not measured: {energy['reason']}" in seen.out
        assert "RAPL" in energy["reason"] or "energy counter" in energy["reason"]
    refused = klab("bench", "square", *args, "--energy", "--timer", "kernel")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_results_as_csv(klab, tmp_path):
    small = ("square", "--impl", "manual,torch", "--shape", "32x32", "--device", "cpu", "--rounds", "3")
    args = ("bench", *small, "--seconds", "0.02", "--only-times")
    both = klab(*args, "--json", "--csv", "both.csv")
    assert [r["impl"] for r in both.record["results"]] == ["manual", "torch"]
    printed = klab(*args, "--csv", "-", "--out", "run")
    assert printed.code == 0, printed.err
    header, *lines = csv.reader(io.StringIO(printed.out))
    assert (tmp_path / "both.csv").read_text().splitlines()[0].split(",") == header
    assert [line[1] for line in lines] == ["manual", "torch"]
    assert (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--csv", "-", "--json"), "both print to standard output"),
        (("--csv", "nowhere/r.csv"), "there is no folder nowhere"),
    ],
)
def test_csv_that_cannot_be_written_is_refused_before_anything_runs(klab, tmp_path, words, message):
    done = klab("bench", "square", *words)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "runs").exists()
