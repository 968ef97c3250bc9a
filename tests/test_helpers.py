"""One-call helpers: for notebooks, and honest there too."""

import subprocess
import sys
import time

import pytest
import torch

import kernellab as kl
from conftest import klab_env
from kernellab.errors import UserError


def test_benchmark_reads_as_mean_milliseconds_and_keeps_every_trial():
    seen = kl.benchmark("nap", lambda: time.sleep(0.01), num_warmups=1, num_trials=5)
    assert 10 <= seen < 40
    assert float(seen) == pytest.approx(sum(seen.times_ms) / 5)
    assert len(seen.times_ms) == 5
    median, low, high = seen.quantiles_ms
    assert low <= median <= high
    assert median == seen.median_ms
    assert f"{seen:.1f}" == f"{float(seen):.1f}"


def test_benchmark_says_what_it_is():
    assert "5 trials, host timer, cache-warm" in repr(kl.benchmark("nothing", lambda: None, num_trials=5))


def test_benchmark_warms_up_as_often_as_asked():
    calls = []
    kl.benchmark("count", lambda: calls.append(1), num_warmups=4, num_trials=3)
    assert len(calls) == 7


@pytest.mark.parametrize(
    ("more", "message"),
    [({"timer": "sundial"}, "no timer"), ({"num_trials": 0}, "at least 1"), ({"num_warmups": -1}, "at least 0")],
)
def test_benchmark_refuses_nonsense(more, message):
    with pytest.raises(UserError, match=message):
        kl.benchmark("x", lambda: None, **more)


def test_benchmark_refuses_to_time_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(UserError, match="interpreter time is not speed"):
        kl.benchmark("x", lambda: None)


def test_run_operation_makes_closures_over_random_matrices():
    assert kl.run_operation1(16, lambda x: x.shape)() == (16, 16)
    a = kl.run_operation2(8, lambda x, y: (x, y))()
    assert not torch.equal(*a)
    assert kl.get_device().type in ("cpu", "cuda")


def test_check_equal_accepts_rounding_and_refuses_difference():
    gelu = kl.ops.gelu
    kl.check_equal(gelu["manual"], gelu["torch"], shape=(64, 64))
    kl.check_equal(gelu["manual"], gelu["torch"], shape=(64, 64), dtype=torch.bfloat16, seed=3)
    for wrong in (torch.zeros_like, lambda x: gelu(x) * 1.0001, lambda x: gelu(x) + float("nan")):
        with pytest.raises(AssertionError):
            kl.check_equal(gelu["manual"], wrong, shape=(64, 64))
    with pytest.raises(AssertionError, match="differ in form"):
        kl.check_equal(lambda x: x, lambda x: x[:1])


def test_check_equal_compares_directly_where_float64_is_not_taken():
    def single_only(x):
        if x.dtype == torch.float64:
            raise TypeError("float32 only")
        return x * x

    kl.check_equal(single_only, torch.square, shape=(32,))
    with pytest.raises(AssertionError):
        kl.check_equal(single_only, torch.abs, shape=(32,))


def test_importing_kernellab_imports_no_torch():
    code = "import sys, kernellab; assert 'torch' not in sys.modules; assert 'gelu' in dir(kernellab.ops)"
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


def test_the_public_names_are_what_they_say():
    for name in dir(kl):
        assert getattr(kl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kl.nothing
    with pytest.raises(AttributeError, match="ships no op"):
        _ = kl.ops.nothing
