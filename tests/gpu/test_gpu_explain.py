"""`klab explain` on a GPU: times, kernels and machine code of the same implementations."""

import json
import math

import pytest

from kernellab.record.reading import load
from support.klab import run_klab

pytestmark = [pytest.mark.gpu, pytest.mark.clocked]


def explain(folder, *arguments):
    done = run_klab("explain", *arguments, "--dtype", "float32", "--seconds", "0.2", "--json", cwd=folder)
    assert done.code == 0, done.err
    return {result["impl"]: result for result in json.loads(done.out)["results"]}


@pytest.fixture(scope="module")
def gelu(tmp_path_factory):
    """GeLU explained as a chain and as one kernel, and the record."""
    folder = tmp_path_factory.mktemp("explain")
    explanations = explain(folder, "gelu", "--impl", "manual,triton", "--shape", "8192x8192", "--out", "run")
    return explanations, load(folder / "run")


def test_the_gelu_chain_is_nine_kernels_that_fusing_would_make_one(gelu):
    explanations, _ = gelu
    chain = explanations["manual"]
    assert chain["findings"][0]["rule"] == "unfused-chain"
    assert (chain["fusion"]["kernels"], len(chain["fusion"]["steps"])) == (9, 9)
    assert [b["family"] for b in chain["became"]] == ["elementwise"]
    measured = chain["time_us"] / explanations["triton"]["time_us"]
    assert chain["fusion"]["gain"] == pytest.approx(measured, rel=0.25)


def test_a_profiled_launch_agrees_with_the_captured_one(gelu):
    explanations, record = gelu
    (captured,) = explanations["triton"]["kernels"]
    (profiled,) = next(result["kernels"] for result in record["results"] if result["impl"] == "triton")
    assert profiled["registers"] == captured["registers"]
    assert math.prod(profiled["grid"]) == captured["blocks"]
    assert math.prod(profiled["block"]) == captured["threads"]


def test_a_good_kernel_is_at_the_limit_and_reported_as_hand_written(gelu):
    explanations, _ = gelu
    good = explanations["triton"]
    assert good["findings"][0]["rule"] == "at-the-limit"
    assert [b["family"] for b in good["became"]] == ["hand-written"]
