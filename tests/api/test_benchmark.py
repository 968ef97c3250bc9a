"""`kl.benchmark`."""

import time

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError


@pytest.mark.clocked
def test_benchmark_reads_as_mean_milliseconds_and_keeps_every_trial():
    result = kl.benchmark("nap", lambda: time.sleep(0.01), num_warmups=1, num_trials=5)
    assert 10 <= result < 40
    assert float(result) == pytest.approx(sum(result.times_ms) / 5)
    assert len(result.times_ms) == 5
    median, low, high = result.quantiles_ms
    assert low <= median <= high
    assert median == result.median_ms
    assert f"{result:.1f}" == f"{float(result):.1f}"


def test_the_repr_names_trials_timer_and_cache():
    assert "5 trials, host timer, cache-warm" in repr(kl.benchmark("nothing", lambda: None, num_trials=5))


def test_benchmark_warms_up_as_often_as_asked():
    calls = []
    kl.benchmark("count", lambda: calls.append(1), num_warmups=4, num_trials=3, count=False)
    assert len(calls) == 7


def test_benchmark_profiles_one_call_after_the_trials():
    calls = []
    x = torch.ones(1000)
    result = kl.benchmark("count", lambda: calls.append(x + x), num_warmups=0, num_trials=3)
    assert len(calls) == 4
    assert result.inside["allocations"]["bytes"] >= 4000
    assert result.remarks == []
    assert repr(result).endswith("cache-warm")
    assert kl.benchmark("x", lambda: x + x, count=False).inside == {}


def test_the_repr_names_what_does_not_belong_in_a_benchmark():
    result = kl.benchmark("noise", lambda: torch.randn(100_000), num_trials=2)
    assert "cache-warm; inside the timed region: draws random numbers: 1 op, " in repr(result)
    assert repr(result).endswith("% of the time")
    assert isinstance(result + 0.0, float)


def test_the_remarks_name_what_was_compiled_during_the_trials():
    def tripled(x):
        return x * 3

    x = torch.ones(10)
    compiled = torch.compile(tripled, backend="eager")
    late = kl.benchmark("late", lambda: compiled(x), num_warmups=0)
    assert late.remarks == ["compiled tripled during the trials: raise num_warmups"]
    assert kl.benchmark("warm", lambda: compiled(x)).remarks == []


def test_the_trials_are_kept_if_the_profiled_call_fails():
    calls = iter(range(3))
    result = kl.benchmark("thrice", lambda: next(calls), num_warmups=0, num_trials=3)
    assert len(result.times_ms) == 3
    assert result.remarks[0].startswith("what it does besides computing could not be counted: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"timer": "sundial"}, "no timer"), ({"num_trials": 0}, "at least 1"), ({"num_warmups": -1}, "at least 0")],
)
def test_benchmark_refuses_an_impossible_request(arguments, message):
    with pytest.raises(UserError, match=message):
        kl.benchmark("x", lambda: None, **arguments)


def test_benchmark_refuses_to_time_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(UserError, match="interpreter time is not speed"):
        kl.benchmark("x", lambda: None)
