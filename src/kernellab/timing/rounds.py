"""Interleaved rounds: every way in every round, in random order, so that drift hits all of them alike.

Rounds go on until every pair of ways is decided, looked at after 64, 128, 256 … of them, or until the time is up.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from kernellab.stats.intervals import FIRST_LOOK, LOOKS, PRECISION, level, median_interval, paired_ratios, verdict_on
from kernellab.stats.trust import is_steady
from kernellab.timing.timers import After, Burst, Timer
from kernellab.timing.work import Work

Running = Callable[[str], AbstractContextManager[None]]

# A window is long enough that opening and closing it hardly counts: at most 32 calls, about 250 µs.
_WINDOW_US = 250.0
MOST_CALLS = 32
# A burst is one to six windows, as many as fit into 3 ms: between bursts the device waits for the verification.
_BURST_US = 3000.0
_MOST_WINDOWS = 6
_FEWEST_WINDOWS = 1.25  # a second one now and then: how many calls a burst has must not be foreseeable
_SLOW_US = 20_000.0  # calls longer than this are not repeated more than need be
_TURN = 0.25  # how often the inputs change contents between rounds
_LEAD = 0.15  # how often an untimed call goes first


def calls_per_window(us: float) -> int:
    return min(max(1, int(_WINDOW_US / max(us, 1e-3))), MOST_CALLS)


class Witness(Protocol):
    """Whoever watches what a way does while it is timed."""

    def after(self, work: Work) -> After:
        """What to do with a burst's last result."""

    def judge(self, work: Work, burst: Burst, *, timed: bool) -> None:
        """Called when the burst has ended; raises where the way cheated."""

    def clock(self) -> float | None:
        """The device's clock in MHz now, where it can be read."""


@dataclass(frozen=True)
class Plan:
    """When to stop: at least `least` rounds; then when the time is up, or every pair is decided.

    `least_seconds` are spent even where the answer is clear sooner: a longer look sees more of the machine.
    """

    seconds: float  # per way
    least: int = 10
    least_seconds: float = 0.0
    most: int = 4096
    precision: float = PRECISION


@dataclass
class Rounds:
    """Iterate to measure: yields each round's samples, a list per way. The rest is known afterwards."""

    works: Mapping[str, Work]
    timer: Timer
    plan: Plan
    witness: Witness
    running: Running
    seed: int
    most_sets: int = 1 + MOST_CALLS
    warmups: int = 0
    warmup_s: float = 0.0
    steady: bool = False
    looks: list[int] = field(default_factory=list)
    decided: bool = False
    calls: dict[str, int] = field(default_factory=dict)
    _most_calls: int = MOST_CALLS
    _late: Counter[str] = field(default_factory=Counter)  # how often in a row a hold gave up
    _windows: dict[str, float] = field(default_factory=dict)  # at most, in a burst

    def __iter__(self) -> Iterator[dict[str, list[float]]]:
        order = random.Random(self.seed)
        names = list(self.works)
        self.calls = {n: 1 if self._alone(n) else self.timer.least_calls for n in names}
        self._warm_up(order, names)
        times: dict[str, dict[int, float]] = {name: {} for name in names}
        began = monotonic()
        deadline = began + self.plan.seconds * len(names)
        for number in range(max(self.plan.most, self.plan.least)):
            found = self._round(order, names, timed=True)
            for name, samples in found.items():
                times[name][number] = statistics.median(samples)
            yield {name: found[name] for name in self.works}
            taken = number + 1
            if taken == FIRST_LOOK * 2 ** len(self.looks) and len(self.looks) < LOOKS:
                self.looks.append(taken)
                self.decided = self._all_decided(times)
            now = monotonic()
            enough = self.decided and now > began + self.plan.least_seconds
            if taken >= self.plan.least and (enough or now > deadline):
                self.decided = self.decided and taken == self.looks[-1]  # otherwise it was time that ended it
                return

    def _warm_up(self, order: random.Random, names: list[str]) -> None:
        """Until times and clocks are steady, for at most a third of the time there is."""
        began = monotonic()
        limit = self.plan.seconds * len(names) / 3
        sums: list[float] = []
        clocks: list[float | None] = []
        while True:
            found = self._round(order, names, timed=False)
            sums.append(sum(statistics.median(samples) for samples in found.values()))
            clocks.append(self.witness.clock())
            self.warmups += 1
            self.warmup_s = monotonic() - began
            self._choose_calls({name: statistics.median(samples) for name, samples in found.items()})
            slow = max(map(min, found.values())) > _SLOW_US
            self.steady = is_steady(sums, clocks)
            if self.warmups >= (2 if slow else 6) and (self.steady or self.warmup_s > limit):
                return

    def _choose_calls(self, times: Mapping[str, float]) -> None:
        """Calls per window: the same for ways of comparable speed, or how often a window opens would set them apart."""
        fastest = min(times.values())
        for name, us in times.items():
            fitting = calls_per_window(fastest if us < 8 * fastest else us)
            wanted = min(max(self.timer.least_calls, fitting), max(1, self.most_sets - 1), self._most_calls)
            self.calls[name] = 1 if self._alone(name) else wanted
            windows = _BURST_US / max(us * self.calls[name], 1e-3)
            self._windows[name] = min(max(_FEWEST_WINDOWS, windows), _MOST_WINDOWS)
        for work in self.works.values():
            work.sets.grow(min(1 + max(self.calls.values()), self.most_sets))  # one more, for a call that goes first

    def _alone(self, name: str) -> bool:
        """A way that changes its inputs finds them written anew once a window: warm calls share one input set."""
        return self.works[name].restores and self.timer.cache == "warm"

    def _round(self, order: random.Random, names: list[str], *, timed: bool) -> dict[str, list[float]]:
        order.shuffle(names)
        turn = order.random() < _TURN
        fraction = order.random()
        lead = int(order.random() < _LEAD)
        found = {}
        for name in names:
            work = self.works[name]
            with self.running(name):
                burst = self.timer.burst(
                    work,
                    windows=int(1 + fraction * self._windows.get(name, 1.0)),
                    calls=self.calls[name],
                    lead=lead,
                    turn=turn,
                    after=self.witness.after(work),
                )
                self.witness.judge(work, burst, timed=timed)
            self._late[name] = self._late[name] + 1 if burst.held is False else 0
            if self._late[name] >= 2 and not timed:  # too much for the launch queue: less at once, for everybody
                self._most_calls = max(1, self.calls[name] // 2)
            found[name] = burst.samples
            turn = False  # once a round
        return found

    def _all_decided(self, times: Mapping[str, Mapping[int, float]]) -> bool:
        """Every pair faster, slower or the same, and a way alone as sure as two would have to be."""
        error = level(len(self.looks), decided=True)
        precision = self.plan.precision
        if len(times) == 1:
            values = list(next(iter(times.values())).values())
            low, high = median_interval(values, error)
            return high - low <= 2 * precision * statistics.median(values)
        return all(
            verdict_on(paired_ratios(times[a], times[b]), error, precision) != "not resolved"
            for a, b in itertools.combinations(times, 2)
        )
