"""Implementations that are slow on new inputs cache results; slow machines do not make them so."""

import pytest
import torch

from kernellab.accuracy.outputs import Wrong
from kernellab.running.worker.guards import value_caches
from kernellab.timing.input_sets import InputSets
from kernellab.timing.timers.clock import ClockTimer


class TimedOnTheCpu:
    """Stands in for a TimedImpl whose bursts take given times."""

    restores_inputs = False

    def __init__(self):
        self.sets = InputSets([{"x": torch.zeros(4)}, {"x": torch.ones(4)}])
        self.sets.grow_to(2)


@pytest.fixture
def judge(monkeypatch):
    """Judge bursts that take (on known inputs, on new inputs) microseconds."""

    def judge(*bursts):
        times = [us for pair in bursts for us in pair]
        monkeypatch.setattr(value_caches, "_cpu_time_us", lambda impl: times.pop(0))
        make_inputs = lambda seed: {"x": torch.rand(4, generator=torch.Generator().manual_seed(seed))}  # noqa: E731
        value_caches.refuse_slow_on_new_inputs(
            ClockTimer(torch.device("cpu"), "cold"), TimedOnTheCpu(), 1, 1.0, make_inputs
        )

    return judge


def test_an_implementation_that_is_always_slower_on_new_inputs_caches_results(judge):
    with pytest.raises(Wrong, match=r"takes 2\.5 times as long on inputs it has not seen before"):
        judge((1.0, 2.5), (0.9, 3.0), (1.0, 2.6), (0.8, 2.9), (0.9, 2.5))


def test_one_burst_that_is_not_slower_clears_it(judge):
    judge((1.0, 9.0), (1.0, 9.0), (1.0, 1.1))


def test_a_machine_that_becomes_slower_between_bursts_makes_nobody_a_cheat(judge):
    """On new inputs it takes 1.6 times as long each time, and no longer than on known inputs at another time."""
    judge((1.0, 1.6), (1.9, 3.1), (1.2, 2.0), (1.8, 2.9), (1.0, 1.6))
