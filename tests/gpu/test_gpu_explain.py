"""klab explain where there is a GPU: times, kernels and machine code of the same ways."""

import json
import math

import pytest

from kernellab.record.reading import load

pytestmark = pytest.mark.gpu


def explained(klab, *arguments):
    done = klab("explain", *arguments, "--seconds", "0.2", "--json")
    assert done.code == 0, done.err
    return {one["impl"]: one for one in json.loads(done.out)["results"]}


def test_the_gelu_chain_is_nine_kernels_that_fusing_would_make_one(klab):
    found = explained(klab, "gelu", "--impl", "manual,triton", "--shape", "8192x8192", "--dtype", "float32")
    chain = found["manual"]
    assert chain["findings"][0]["rule"] == "unfused-chain"
    assert (chain["fusion"]["kernels"], len(chain["fusion"]["steps"])) == (9, 9)
    assert [b["family"] for b in chain["became"]] == ["elementwise"]
    measured = chain["time_us"] / found["triton"]["time_us"]
    assert chain["fusion"]["gain"] == pytest.approx(measured, rel=0.25)


def test_a_good_kernel_is_at_the_limit_and_its_own(klab):
    found = explained(klab, "gelu", "--impl", "triton", "--shape", "16384x16384", "--dtype", "float32")["triton"]
    assert found["findings"][0]["rule"] == "at-the-limit"
    assert [b["family"] for b in found["became"]] == ["hand-written"]


def test_what_the_profiler_says_of_a_launch_is_what_was_captured(klab, tmp_path):
    asked = ("gelu", "--impl", "triton", "--shape", "4096x4096", "--dtype", "float32", "--out", "run")
    (captured,) = explained(klab, *asked)["triton"]["kernels"]
    (seen,) = load(tmp_path / "run")["results"][0]["kernels"]
    assert seen["registers"] == captured["registers"]
    assert math.prod(seen["grid"]) == captured["blocks"]
    assert math.prod(seen["block"]) == captured["threads"]
