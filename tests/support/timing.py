"""Input sets, a timer that measures nothing and a guard that checks nothing, for tests of the timing engine."""

from __future__ import annotations

import random

import torch

from kernellab.timing.input_sets import InputSets
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import Burst, BurstTimer

CPU = torch.device("cpu")


def two_content_sets(count=4):
    generator = torch.Generator().manual_seed(0)
    sets = InputSets([{"x": torch.randn(64, generator=generator), "none": None} for _ in range(2)])
    sets.grow_to(count)
    return sets


def timed_impl(prepare, sets=None, name="f", **flags):
    return TimedImpl(name, sets or two_content_sets(), prepare, order=random.Random(0), **flags)


class FakeTimer(BurstTimer):
    """Draws times from a distribution instead of measuring."""

    name = "fake"

    def __init__(self, means, noise):
        super().__init__(CPU, "cold")
        self.means, self.noise, self.bursts = means, noise, []
        self._random = random.Random(1)

    def burst(self, impl, spec):
        self.bursts.append((impl.name, spec))
        mean = self.means[impl.name]
        return Burst([mean * (1 + self._random.gauss(0, self.noise)) for _ in range(spec.windows)])


class NoGuard:
    def verifier(self, impl):
        return lambda result, number: None

    def judge(self, impl, burst, *, timed):
        pass

    def clock_mhz(self):
        return None

    def burst_clock_mhz(self):
        return None
