"""The clock timer: the input sets of its windows, the results it keeps, and the time it measures."""

import statistics
import time
import weakref

import pytest
import torch

from kernellab.timing.timer import BurstSpec
from kernellab.timing.timers.clock import ClockTimer
from support.timing import CPU, timed_impl, two_content_sets

pytestmark = pytest.mark.clocked


def logged_impl(sets, log):
    return timed_impl(lambda inputs: lambda: log.append(inputs["x"].data_ptr()) or inputs["x"], sets)


def test_a_cold_window_uses_every_set_once_and_verifies_any_of_its_results():
    sets, log, verified = two_content_sets(5), [], []
    timer = ClockTimer(CPU, "cold")
    impl = logged_impl(sets, log)
    spec = BurstSpec(calls=4, verify=lambda y, n: verified.append((y, n)))
    burst = timer.burst(impl, spec)
    # A short window begins with an untimed call on inputs of its own: the flush has evicted the code too.
    assert sorted(log) == sorted(sets[i]["x"].data_ptr() for i in range(5))
    assert verified[0][0].data_ptr() == sets[verified[0][1]]["x"].data_ptr()
    for _ in range(30):
        timer.burst(impl, spec)
    positions = {log.index(y.data_ptr(), 5 * i) - 5 * i for i, (y, _) in enumerate(verified)}
    assert positions == {1, 2, 3, 4}
    assert len(burst.samples_us) == 1


def test_a_warm_window_repeats_one_set_after_an_untimed_call():
    log = []
    burst = ClockTimer(CPU, "warm").burst(
        logged_impl(two_content_sets(), log), BurstSpec(calls=3, windows=2, lead_calls=1)
    )
    assert len(log) == 1 + 2 * (1 + 3)
    assert len(set(log[1:5])) == len(set(log[5:])) == 1
    assert len(burst.samples_us) == 2


def test_an_implementation_that_changes_its_inputs_gets_them_rewritten():
    sets = two_content_sets(2)
    impl = timed_impl(lambda inputs: lambda: inputs["x"].mul_(2), sets, restores_inputs=True)
    results = []
    spec = BurstSpec(calls=1, windows=2, lead_calls=1, verify=lambda y, n: results.append((y.clone(), n)))
    for _ in range(5):
        ClockTimer(CPU, "cold").burst(impl, spec)
    assert len(results) == 5
    for y, n in results:
        assert torch.equal(y, sets.contents[sets.content_of(n)]["x"] * 2)


def test_results_are_kept_apart_when_cold_and_not_when_warm():
    def most_alive(cache):
        alive, most = [], []

        def prepare(inputs):
            def call():
                y = torch.empty(8)
                alive.append(weakref.ref(y))
                most.append(sum(ref() is not None for ref in alive))
                return y

            return call

        ClockTimer(CPU, cache).burst(timed_impl(prepare), BurstSpec(calls=4))
        return max(most)

    assert most_alive("cold") >= 4
    assert most_alive("warm") <= 2


def test_the_clock_measures_time():
    impl = timed_impl(lambda inputs: lambda: time.sleep(0.002))
    burst = ClockTimer(CPU, "cold").burst(impl, BurstSpec(calls=2, windows=3))
    assert 2000 <= statistics.median(burst.samples_us) < 4000
