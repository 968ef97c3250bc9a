"""Interleaved rounds: every implementation in every round, in random order, so that drift affects all of them equally.

Rounds continue until every pair of implementations is decided, which is tested after 64, 128, 256 … rounds, or until
the time is up.
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
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import WARM, Burst, BurstChanged, BurstSpec, BurstTimer, Verify

Running = Callable[[str], AbstractContextManager[None]]

# A window is long enough that starting and ending it hardly count: about 250 µs, at most 32 calls.
_WINDOW_US = 250.0
MOST_CALLS = 32
# A burst is one to six windows, as many as fit into 3 ms: between bursts the device waits for the verification.
_BURST_US = 3000.0
_MOST_WINDOWS = 6
_LEAST_WINDOWS = 1.25  # sometimes a second window: the number of calls in a burst must not be predictable
_SLOW_US = 20_000.0  # calls longer than this are warmed up in two rounds instead of six
_WARMUP_ROUNDS, _SLOW_WARMUP_ROUNDS = 6, 2
_SWAP_SHARE = 0.25  # of the rounds begin with a swap of the inputs' contents
_LEAD_CALL_SHARE = 0.15  # of the bursts begin with an untimed call
_COMPARABLE = 8  # implementations within this factor of the fastest get windows of the same number of calls


def calls_per_window(call_us: float) -> int:
    return min(max(1, int(_WINDOW_US / max(call_us, 1e-3))), MOST_CALLS)


class BurstGuard(Protocol):
    """Checks what an implementation does while it is timed."""

    def verifier(self, impl: TimedImpl) -> Verify:
        """The function that verifies a result of the next burst."""

    def judge(self, impl: TimedImpl, burst: Burst, *, timed: bool) -> None:
        """Called at the end of a burst; raises if the implementation cheated."""

    def clock_mhz(self) -> float | None:
        """The device's clock now, if it can be read."""

    def burst_clock_mhz(self) -> float | None:
        """The device's clock while the last burst ran, if it can be read."""


@dataclass(frozen=True)
class Plan:
    """When to stop: after at least `least_rounds`, when the time is up or every pair is decided.

    `least_seconds` are spent even if all pairs are decided sooner: a longer run samples more states of the machine.
    """

    seconds: float  # per implementation
    least_rounds: int = 10
    least_seconds: float = 0.0
    most_rounds: int = 4096
    precision: float = PRECISION


@dataclass
class Rounds:
    """Iterate to measure: each round yields the samples of every implementation, in microseconds.

    The fields after `most_sets` are results: complete once the iteration has ended. `before` and `clocks_mhz` are
    those of the round that was yielded last.
    """

    impls: Mapping[str, TimedImpl]
    timer: BurstTimer
    plan: Plan
    guard: BurstGuard
    running: Running
    seed: int
    most_sets: int = 1 + MOST_CALLS
    warmup_rounds: int = 0
    warmup_s: float = 0.0
    steady: bool = False
    looks: list[int] = field(default_factory=list)  # the number of rounds at each look
    decided: bool = False
    calls: dict[str, int] = field(default_factory=dict)  # per window
    before: dict[str, str] = field(default_factory=dict)  # which implementation ran before each one in the last round
    clocks_mhz: dict[str, float | None] = field(default_factory=dict)  # while each one ran in it
    _most_calls: int = MOST_CALLS
    _late_bursts: Counter[str] = field(default_factory=Counter)  # how often in a row a hold gave up
    _most_windows: dict[str, float] = field(default_factory=dict)  # in a burst
    _ran_last: str = ""
    _order: random.Random = field(default_factory=random.Random)

    def __iter__(self) -> Iterator[dict[str, list[float]]]:
        order = self._order = random.Random(self.seed)
        names = list(self.impls)
        self.calls = {n: 1 if self._needs_single_calls(n) else self.timer.least_calls for n in names}
        self._warm_up(order, names)
        medians: dict[str, dict[int, float]] = {name: {} for name in names}
        start = monotonic()
        deadline = start + self.plan.seconds * len(names)
        for number in range(max(self.plan.most_rounds, self.plan.least_rounds)):
            samples_us = self._run_round(order, names, timed=True)
            for name, samples in samples_us.items():
                medians[name][number] = statistics.median(samples)
            yield {name: samples_us[name] for name in self.impls}
            count = number + 1
            if count == FIRST_LOOK * 2 ** len(self.looks) and len(self.looks) < LOOKS:
                self.looks.append(count)
                self.decided = self._all_decided(medians)
            now = monotonic()
            enough = self.decided and now > start + self.plan.least_seconds
            if count >= self.plan.least_rounds and (enough or now > deadline):
                # If the rounds end between two looks, time has ended them, which sets the error level of the intervals.
                self.decided = self.decided and count == self.looks[-1]
                return

    def run_another(self, name: str) -> list[float]:
        """One more round of one implementation, after all others; its samples."""
        return self._run_round(self._order, [name], timed=True)[name]

    def _warm_up(self, order: random.Random, names: list[str]) -> None:
        """Run rounds until times and clocks are steady, for at most a third of the time budget."""
        start = monotonic()
        limit_s = self.plan.seconds * len(names) / 3
        sums: list[float] = []
        clocks: list[float | None] = []
        while True:
            samples_us = self._run_round(order, names, timed=False)
            medians = {name: statistics.median(samples) for name, samples in samples_us.items()}
            sums.append(sum(medians.values()))
            clocks.append(self.guard.clock_mhz())
            self.warmup_rounds += 1
            self.warmup_s = monotonic() - start
            self._choose_calls(medians)
            slow = max(map(min, samples_us.values())) > _SLOW_US
            self.steady = is_steady(sums, clocks)
            least = _SLOW_WARMUP_ROUNDS if slow else _WARMUP_ROUNDS
            if self.warmup_rounds >= least and (self.steady or self.warmup_s > limit_s):
                return

    def _choose_calls(self, medians: Mapping[str, float]) -> None:
        """Set the calls per window. Implementations of comparable speed get the same number: otherwise the overhead of
        a window would make them differ."""
        fastest = min(medians.values())
        for name, us in medians.items():
            window_calls = calls_per_window(fastest if us < _COMPARABLE * fastest else us)
            calls = min(max(self.timer.least_calls, window_calls), max(1, self.most_sets - 1), self._most_calls)
            self.calls[name] = 1 if self._needs_single_calls(name) else calls
            windows = _BURST_US / max(us * self.calls[name], 1e-3)
            self._most_windows[name] = min(max(_LEAST_WINDOWS, windows), _MOST_WINDOWS)
        for impl in self.impls.values():
            impl.sets.grow_to(min(1 + max(self.calls.values()), self.most_sets))  # one more, for an untimed call

    def _needs_single_calls(self, name: str) -> bool:
        """Whether windows have one call: warm calls share an input set, which is rewritten only once per window."""
        return self.impls[name].restores_inputs and self.timer.cache == WARM

    def _run_round(self, order: random.Random, names: list[str], *, timed: bool) -> dict[str, list[float]]:
        order.shuffle(names)
        swap = order.random() < _SWAP_SHARE
        fraction = order.random()
        lead_calls = int(order.random() < _LEAD_CALL_SHARE)
        samples_us = {}
        self.before, self.clocks_mhz = {}, {}
        for name in names:
            impl = self.impls[name]
            with self.running(name):
                spec = BurstSpec(
                    calls=self.calls[name],
                    windows=int(1 + fraction * self._most_windows.get(name, 1.0)),
                    lead_calls=lead_calls,
                    swap=swap,
                    verify=self.guard.verifier(impl),
                )
                described = (spec.calls, spec.windows)
                burst = self.timer.burst(impl, spec)
                if described != (spec.calls, spec.windows) or len(burst.samples_us) != described[1]:
                    raise BurstChanged("changed how many calls its time is divided by")
                self.guard.judge(impl, burst, timed=timed)
            self._late_bursts[name] = self._late_bursts[name] + 1 if burst.stream_held is False else 0
            if self._late_bursts[name] >= 2 and not timed:  # too many calls for the launch queue: fewer for all
                self._most_calls = max(1, self.calls[name] // 2)
            samples_us[name] = list(burst.samples_us)
            self.before[name], self._ran_last = self._ran_last, name
            self.clocks_mhz[name] = self.guard.burst_clock_mhz()
            del burst  # the next implementation could find it in this frame, and change the samples of this one
            swap = False  # once per round
        return samples_us

    def _all_decided(self, medians: Mapping[str, Mapping[int, float]]) -> bool:
        """Whether each pair is faster, slower or the same. A single implementation needs an interval as narrow as
        "the same" requires for two."""
        error = level(len(self.looks), decided=True)
        precision = self.plan.precision
        if len(medians) == 1:
            values = list(next(iter(medians.values())).values())
            low, high = median_interval(values, error)
            return high - low <= 2 * precision * statistics.median(values)
        return all(
            verdict_on(paired_ratios(medians[a], medians[b]), error, precision) != "not resolved"
            for a, b in itertools.combinations(medians, 2)
        )
