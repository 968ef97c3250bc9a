"""Interleaved rounds: looks, when they end, random order, and windows of equal length."""

import sys
import time
from contextlib import nullcontext

import pytest

from kernellab.stats.intervals import FIRST_LOOK, LOOKS, level
from kernellab.timing.rounds import Plan, Rounds, calls_per_window
from kernellab.timing.timer import Burst
from support.timing import FakeTimer, NoGuard, timed_impl, two_content_sets

pytestmark = pytest.mark.clocked


def run_rounds(timer, **plan):
    sets = two_content_sets(2)
    impls = {name: timed_impl(lambda x: lambda: None, sets, name) for name in timer.means}
    rounds = Rounds(impls, timer, Plan(**{"seconds": 30.0, **plan}), NoGuard(), lambda name: nullcontext(), seed=0)
    return rounds, list(rounds)


def test_rounds_double_until_every_pair_is_decided():
    rounds, samples = run_rounds(FakeTimer({"a": 100.0, "b": 110.0}, 0.01))
    assert (rounds.decided, len(samples), rounds.looks) == (True, FIRST_LOOK, [FIRST_LOOK])
    rounds, samples = run_rounds(FakeTimer({"a": 100.0, "b": 100.6}, 0.02))
    assert rounds.decided
    assert len(samples) == rounds.looks[-1] > FIRST_LOOK


def test_the_time_budget_ends_rounds_that_cannot_be_decided():
    rounds, samples = run_rounds(FakeTimer({"a": 100.0, "b": 100.01}, 0.5), seconds=0.05, least_rounds=10)
    assert not rounds.decided
    assert len(samples) >= 10


def test_rounds_do_not_end_before_the_least_time_even_if_decided():
    start = time.monotonic()
    rounds, samples = run_rounds(FakeTimer({"a": 100.0, "b": 200.0}, 0.01), least_seconds=0.2)
    assert time.monotonic() - start >= 0.2
    assert rounds.decided == (len(samples) == rounds.looks[-1])  # otherwise time ended it, with its error level


def test_order_windows_and_lead_calls_are_random_and_every_implementation_is_in_every_round():
    timer = FakeTimer({"a": 100.0, "b": 110.0, "c": 120.0}, 0.01)
    _, samples = run_rounds(timer)
    names = [name for name, _ in timer.bursts]
    orders = {tuple(names[i : i + 3]) for i in range(0, len(names) - 2, 3)}
    assert len(orders) > 3
    assert all(set(order) == {"a", "b", "c"} for order in orders)
    assert {spec.lead_calls for _, spec in timer.bursts} == {0, 1}
    assert {spec.swap for _, spec in timer.bursts} == {False, True}
    assert len({len(round_["a"]) for round_ in samples}) > 2


def test_implementations_of_similar_speed_get_windows_of_equal_length():
    rounds, _ = run_rounds(FakeTimer({"a": 120.0, "b": 130.0, "slow": 5000.0}, 0.001))
    assert rounds.calls["a"] == rounds.calls["b"] == calls_per_window(120.0) == 2
    assert rounds.calls["slow"] == 1
    assert calls_per_window(5.0) == 32
    assert calls_per_window(0.0) == 32


def test_there_is_a_last_look():
    timer = FakeTimer({"a": 100.0, "b": 100.0001}, 0.3)
    rounds, samples = run_rounds(timer, seconds=60.0, least_rounds=FIRST_LOOK * 2**LOOKS, most_rounds=1)
    assert len(samples) == FIRST_LOOK * 2**LOOKS
    assert len(rounds.looks) == LOOKS
    assert 0 < level(LOOKS, decided=False) < 0.01


def test_no_implementation_finds_the_samples_of_the_one_before_in_a_frame():
    class LookingTimer(FakeTimer):
        found = ()

        def burst(self, impl, spec):
            frame = sys._getframe(1)
            while frame is not None:
                self.found += tuple(value for value in frame.f_locals.values() if isinstance(value, Burst))
                frame = frame.f_back
            return super().burst(impl, spec)

    timer = LookingTimer({"a": 100.0, "b": 110.0}, 0.01)
    run_rounds(timer)
    assert timer.bursts
    assert not timer.found


def test_a_hold_that_gives_up_twice_in_a_row_shortens_the_windows_of_all():
    class LateTimer(FakeTimer):
        late_bursts = ()

        def burst(self, impl, spec):
            burst = super().burst(impl, spec)
            burst.stream_held = not (impl.name == "a" and len(self.bursts) in self.late_bursts)
            return burst

    def calls(late_bursts):
        timer = LateTimer({"a": 5.0, "b": 5.1}, 0.001)
        timer.late_bursts = late_bursts
        rounds, _ = run_rounds(timer, seconds=0.2)
        return rounds.calls

    assert set(calls({3, 4}).values()) == {32}
    assert set(calls(range(3, 7)).values()) == {16}


def test_each_round_says_what_ran_before_what_and_at_which_clock():
    timer = FakeTimer({"a": 100.0, "b": 110.0, "c": 120.0}, 0.01)

    class Clocks(NoGuard):
        def burst_clock_mhz(self):
            return float(len(timer.bursts))  # as if it changed with every burst

    sets = two_content_sets(2)
    impls = {name: timed_impl(lambda x: lambda: None, sets, name) for name in timer.means}
    rounds = Rounds(impls, timer, Plan(seconds=30.0), Clocks(), lambda name: nullcontext(), seed=0)
    for _ in rounds:
        names = [name for name, _ in timer.bursts]
        assert rounds.before == {names[at]: names[at - 1] for at in (-1, -2, -3)}
        assert rounds.clocks_mhz == {names[at]: len(names) + 1 + at for at in (-1, -2, -3)}
