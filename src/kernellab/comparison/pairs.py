"""Pairs of times, one from each side, and the verdict on each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernellab.comparison.estimate import Estimate
from kernellab.comparison.run_variation import RunVariation
from kernellab.declaration.documents import CaseJson
from kernellab.stats.intervals import CONFIDENCE, FEWEST, PRECISION, compare_ratio
from kernellab.stats.many import step_down_levels

ERROR = 1 - CONFIDENCE  # how often a comparison of equal code may call anything faster or slower


@dataclass(frozen=True)
class ResultKey:
    """Which result: one implementation of an op at a case."""

    op: str
    impl: str
    case: CaseJson


@dataclass(frozen=True)
class SeriesKey:
    """Which time of a result."""

    result: ResultKey
    pass_name: str
    timer: str | None
    cache: str | None


@dataclass(frozen=True)
class Pair:
    """One time on both sides. The ratio is after / before: above 1 is slower.

    `low` and `high` are the interval that the verdict rests on: it excludes 1 where the verdict is faster or slower.
    """

    key: SeriesKey
    before_us: float
    after_us: float
    ratio: float
    low: float | None
    high: float | None
    verdict: str  # `faster`, `slower`, `same` or `not resolved`
    reason: str  # why, for `not resolved`
    variation: RunVariation | None  # None where it was measured again
    trust_before: str  # `trusted`, or the names of the reasons; empty where it was not judged
    trust_after: str
    tuned_differently: bool = False  # whether Triton's autotuners chose other configurations
    blocks: int = 0  # pairs of processes in which it was measured again
    clock_before_mhz: float | None = None  # the GPU's, while it was timed; None where it is not known
    clock_after_mhz: float | None = None

    @property
    def trusted(self) -> bool:
        return all(trust in ("", "trusted") for trust in (self.trust_before, self.trust_after))

    @property
    def clock_change(self) -> float:
        """The share by which the GPU's clock differed between the sides; 0 where it is not known."""
        before, after = self.clock_before_mhz, self.clock_after_mhz
        return 0.0 if not before or not after else abs(after - before) / max(before, after)

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval, relative to the ratio: no smaller difference is resolved."""
        return None if self.low is None or self.high is None else math.sqrt(self.high / self.low) - 1

    def measured_again(self, before_us: float, after_us: float, verdict: Verdict, blocks: int) -> Pair:
        """The same pair from other processes, in which it was measured on both sides."""
        return replace(
            self,
            before_us=before_us,
            after_us=after_us,
            ratio=after_us / before_us,
            low=verdict.low,
            high=verdict.high,
            verdict=verdict.verdict,
            reason=verdict.reason,
            variation=None,
            trust_before="",
            trust_after="",
            blocks=blocks,
            clock_before_mhz=None,
            clock_after_mhz=None,
        )

    def unresolved(self, reason: str) -> Pair:
        """The same pair, for another reason not resolved."""
        return replace(self, reason=reason)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a ratio, and the interval that it rests on."""

    verdict: str
    low: float | None
    high: float | None
    reason: str


def judge(estimates: Sequence[Estimate | None], precision: float = PRECISION, error: float = ERROR) -> list[Verdict]:
    """A verdict for each estimate, all from one comparison: the chance of one false alarm among them is `error`."""
    probabilities = [estimate.probability for estimate in estimates if estimate is not None]
    levels = iter(step_down_levels(probabilities, error))
    return [_TOO_FEW if estimate is None else _judge(estimate, next(levels), precision) for estimate in estimates]


_TOO_FEW = Verdict("not resolved", None, None, f"fewer than {FEWEST} rounds in a run")


def _judge(estimate: Estimate, level: float, precision: float) -> Verdict:
    low, high = estimate.interval(level)
    verdict = compare_ratio(1 / high, 1 / low, precision)
    if estimate.probability > level and verdict in ("faster", "slower"):
        verdict = "not resolved"  # the last digit of the interval excludes 1, the test does not
    half_width = f"{100 * (math.sqrt(high / low) - 1):.3g}"
    reason = f"differences up to ±{half_width} % are not resolved" if verdict == "not resolved" else ""
    return Verdict(verdict, low, high, reason)
