"""The choice at one size: certain differences decide, uncertain ones leave the shipped choice."""

import pytest

from kernellab.record import verdict
from kernellab.record.timed_series import TimedSeries
from kernellab.tuning.winners import Measured, Pair
from support.records import record, result

TORCH, CPP = Pair("torch", "torch"), Pair("cpp", "cpp")


def series(pass_name, us, noise=0.0):
    """Twenty rounds around a time; noise is not the same in every implementation."""
    samples = [us * (1 + noise * (-1 if number % 2 else 1)) for number in range(20)]
    return {
        "pass": pass_name,
        "timer": "clock",
        "cache": "cold",
        "status": "ok",
        "reason": None,
        "samples_us": samples,
        "rounds": list(range(20)),
    }


def timed(impl, forward_us, backward_us, *, noise=0.0, **more):
    return result(impl, times=[series("forward", forward_us, noise), series("backward", backward_us, noise)], **more)


def decide(shipped, *results, baseline="torch", refused=()):
    return Measured(verdict.derive(record(*results))["results"], baseline, refused).decide(shipped)


def test_what_is_certainly_faster_replaces_the_shipped_choice():
    decision = decide(TORCH, timed("torch", 100, 200), timed("cpp", 50, 100))
    assert decision.chosen == CPP
    assert decision.over == {"forward": 2.0, "backward": 2.0}


def test_what_is_not_certain_leaves_the_shipped_choice():
    noisy = timed("cpp", 99, 198, noise=0.1)
    assert decide(TORCH, timed("torch", 100, 200), noisy).chosen == TORCH
    assert decide(CPP, timed("torch", 98, 196), noisy).chosen == CPP


def test_each_pass_has_its_own_implementation():
    decision = decide(CPP, timed("torch", 100, 200), timed("cpp", 50, 100), timed("triton", 70, 60))
    assert decision.chosen == Pair("cpp", "triton")


def test_where_only_inference_gains_pytorch_keeps_serving_where_a_gradient_is_needed():
    assert decide(TORCH, timed("torch", 100, 200), timed("cpp", 50, 300)).chosen == Pair("cpp", "torch")


def test_a_slower_backward_is_worth_it_where_both_passes_together_are_faster():
    assert decide(TORCH, timed("torch", 100, 100), timed("cpp", 20, 110)).chosen == CPP


def test_a_gain_in_training_does_not_cost_inference():
    assert decide(TORCH, timed("torch", 100, 200), timed("cpp", 120, 50)).chosen == TORCH


def test_an_equal_forward_and_a_faster_backward_are_enough():
    assert decide(TORCH, timed("torch", 100, 200), timed("cpp", 100, 50)).chosen == CPP


def test_what_the_reference_computes_stands_for_pytorch_where_it_has_no_op():
    assert decide(TORCH, timed("manual", 100, 200), timed("cpp", 50, 100), baseline="manual").chosen == CPP


def test_the_shipped_choice_loses_its_place_to_pytorch():
    assert decide(CPP, timed("torch", 10, 20), timed("cpp", 50, 100)).chosen == TORCH


@pytest.mark.parametrize("status", ["wrong", "error", "crashed", "timeout"])
def test_a_wrong_implementation_is_never_chosen_however_fast_it_is(status):
    fast = timed("cpp", 1, 1, status=status, reason="off by 2")
    assert decide(TORCH, timed("torch", 100, 200), fast).chosen == TORCH
    decision = decide(CPP, timed("torch", 100, 200), fast)  # not even if it is the shipped one
    assert decision.chosen == TORCH
    assert f"the shipped cpp failed here: {status}: off by 2" in decision.reason


def test_what_failed_its_verification_is_never_chosen():
    results = timed("torch", 100, 200), timed("cpp", 1, 1), timed("triton", 50, 100)
    assert decide(TORCH, *results, refused=["cpp"]).chosen == Pair("triton", "triton")
    assert decide(CPP, *results, refused=["cpp"]).chosen == Pair("triton", "triton")


def test_a_shipped_choice_that_was_not_timed_stays():
    decision = decide(Pair("cuda", "cuda"), timed("torch", 100, 200), timed("cpp", 1, 1))
    assert (decision.switches, decision.reason) == (False, "the shipped choice was not timed here")


def test_a_certain_saving_is_what_the_verdict_calls_faster():
    for noise in (0.0, 0.02, 0.2):
        mine = TimedSeries("mine", "cpu", series("forward", 95, noise))
        theirs = TimedSeries("theirs", "cpu", series("forward", 100))
        low, high = mine.saved_us(theirs)
        assert (low > 0) == (mine.over(theirs)["verdict"] == "faster")
        assert low <= 100 - 95 * (1 + noise) <= high or noise == 0.0
    assert TimedSeries("short", "cpu", {**mine.entry, "samples_us": [1.0], "rounds": [0]}).saved_us(theirs) is None
