"""How many times as long something takes after a change as before: one number with its uncertainty."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.comparison.run_variation import RunVariation
from kernellab.record.schema import TimeSeries
from kernellab.stats.intervals import CONFIDENCE, FEWEST, by_round, median_interval
from kernellab.stats.student import quantile, tail_probability


@dataclass(frozen=True)
class RunTime:
    """The time of one series in one run: the logarithm of its median in µs, and how exactly the rounds determine it."""

    logarithm: float
    error: float  # standard error, relative
    rounds: int

    @property
    def us(self) -> float:
        return math.exp(self.logarithm)


def run_time(series: TimeSeries) -> RunTime | None:
    """None where no time is above 0."""
    rounds = [us for us in by_round(series["samples_us"], series["rounds"]).values() if us > 0]
    if not rounds:
        return None
    low, high = median_interval(rounds)
    error = math.log(high / low) / 2 / quantile(None, CONFIDENCE)
    return RunTime(math.log(statistics.median(rounds)), error, len(rounds))


def typical_us(times: Sequence[RunTime]) -> float:
    """The time of several runs: the geometric mean of their medians."""
    return math.exp(statistics.fmean(time.logarithm for time in times))


@dataclass(frozen=True)
class Estimate:
    """The logarithm of a ratio of two times. `dof` is None where the scatter is not itself estimated."""

    logarithm: float
    error: float
    dof: int | None

    @property
    def probability(self) -> float:
        """The probability of a ratio at least as far from 1 if both sides were equally fast."""
        return tail_probability(self.logarithm / self.error, self.dof)

    def interval(self, level: float) -> tuple[float, float]:
        """The interval of the ratio that misses it with this probability."""
        half_width = min(quantile(self.dof, 1 - level) * self.error, _MOST)
        return math.exp(self.logarithm - half_width), math.exp(self.logarithm + half_width)


_MOST = 100.0  # the half-width of an interval, in logarithms: with one degree of freedom it may exceed all floats


def estimate(before: Sequence[RunTime], after: Sequence[RunTime], variation: RunVariation) -> Estimate | None:
    """The ratio after / before. None with too few rounds in a run to say how exactly they determine its time."""
    if min(time.rounds for time in (*before, *after)) < FEWEST:
        return None
    variance = sum(
        (variation.relative**2 + statistics.fmean(time.error**2 for time in times)) / len(times)
        for times in (before, after)
    )
    logarithms = [statistics.fmean(time.logarithm for time in times) for times in (before, after)]
    return Estimate(logarithms[1] - logarithms[0], math.sqrt(variance), variation.dof)
