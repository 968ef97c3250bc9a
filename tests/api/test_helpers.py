"""One-call helpers: for notebooks, and honest there too."""

import subprocess
import sys
import time

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from support.klab import klab_env


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
    kl.benchmark("count", lambda: calls.append(1), num_warmups=4, num_trials=3, count=False)
    assert len(calls) == 7


def test_benchmark_profiles_one_call_after_the_trials():
    calls = []
    x = torch.ones(1000)
    seen = kl.benchmark("count", lambda: calls.append(x + x), num_warmups=0, num_trials=3)
    assert len(calls) == 4
    assert seen.inside["allocations"]["bytes"] >= 4000
    assert seen.remarks == []
    assert repr(seen).endswith("cache-warm")
    assert kl.benchmark("x", lambda: x + x, count=False).inside == {}


def test_benchmark_says_what_does_not_belong_in_it():
    seen = kl.benchmark("noise", lambda: torch.randn(100_000), num_trials=2)
    assert "cache-warm; inside the timed region: draws random numbers: 1 op, " in repr(seen)
    assert repr(seen).endswith("% of the time")
    assert isinstance(seen + 0.0, float)


def test_benchmark_says_what_was_compiled_during_the_trials():
    def tripled(x):
        return x * 3

    x = torch.ones(10)
    compiled = torch.compile(tripled, backend="eager")
    late = kl.benchmark("late", lambda: compiled(x), num_warmups=0)
    assert late.remarks == ["compiled tripled during the trials: raise num_warmups"]
    assert kl.benchmark("warm", lambda: compiled(x)).remarks == []


def test_benchmark_keeps_its_trials_where_the_profiled_call_fails():
    calls = iter(range(3))
    seen = kl.benchmark("thrice", lambda: next(calls), num_warmups=0, num_trials=3)
    assert len(seen.times_ms) == 3
    assert seen.remarks[0].startswith("what it does besides could not be counted: ")


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
