"""Whether the ratio of two times can be trusted, apart from whether the times can. Imports no torch.

Implementations run in rounds, in random order. What the machine does to all of them alike (a clock that moves with the
power, a chip that warms up) makes times uncertain and leaves ratios within rounds as they are. What falls on one side
does not. So the rounds are split in ways that should not matter: by whether the two ran one right after the other, by
time, by clock. Where the ratio differs between the parts by more than scatter, or where the clock was not the same for
both, the reason says so, and the range of ratios that it explains is part of the ratio's interval.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.stats.intervals import FEWEST, paired_ratios, quantile
from kernellab.stats.student import t_quantile
from kernellab.stats.trust import CLOCK_MOVED, Reason, percent

# Differences below these are left to the interval of the ratio. A neighbour acts on a part of the rounds only, so the
# median of all of them is off by less than the parts differ.
_NEIGHBOURS, _DRIFT, _BY_CLOCK = 0.005, 0.01, 0.01
# The clock moves in steps of 15 MHz, below 1 %, but its mean over many rounds is known better than that.
_UNEVEN, _UNEVEN_CONFIDENCE = 0.002, 0.999
_SHIFTED = 3.5  # standard deviations by which ranks differ: 1 in 2000 of equal parts

# What the tests may miss while the clock moves. Without this allowance, equally fast implementations that draw
# different power are called different too often in simulations (tests/stats/test_ratio_trust.py).
_WHILE_CLOCK_MOVES = 0.0025

# Reasons against a time that hold for both sides alike, unless one of the tests here says otherwise.
_OF_THE_CLOCK = ("throttled", "clock-moved")
_SHARED = (*_OF_THE_CLOCK, "unsteady")
_OF_OTHERS = "contended"  # other work slows one implementation more than another


@dataclass(frozen=True)
class Side:
    """One of the two implementations, by round; `reasons` are those against its time."""

    impl: str
    times_us: Mapping[int, float]
    before: Mapping[int, str] = field(default_factory=dict)  # which implementation ran before it; empty: not recorded
    clocks_mhz: Mapping[int, float] = field(default_factory=dict)  # while it ran; empty: not read
    reasons: Sequence[Reason] = ()


@dataclass(frozen=True)
class Doubt:
    """A reason not to trust a ratio. `factors`: what the ratio is multiplied by under other circumstances."""

    reason: Reason
    factors: tuple[float, ...] = ()


@dataclass(frozen=True)
class RatioTrust:
    """`doubts`: why a ratio is not trusted; empty if it is. `allowance`: the share by which it may be off all the same,
    because the clock moved."""

    doubts: Sequence[Doubt]
    allowance: float

    @property
    def reasons(self) -> list[Reason]:
        return [doubt.reason for doubt in self.doubts]

    def widen(self, low: float, high: float) -> tuple[float, float]:
        """The interval of a ratio with all that the state of the machine may explain: that is not called a
        difference."""
        factors = [1.0, *(factor for doubt in self.doubts for factor in doubt.factors)]
        return low * min(factors) / (1 + self.allowance), high * max(factors) * (1 + self.allowance)


def judge_ratio(mine: Side, theirs: Side, *, device: str) -> RatioTrust:
    """Whether the ratio of two implementations' times is trusted."""
    against_times = {reason["name"]: reason for side in (theirs, mine) for reason in side.reasons}
    doubts = [Doubt(against_times[_OF_OTHERS])] if _OF_OTHERS in against_times else []
    ratios = _ratios(mine, theirs)
    far, near = _by_neighbourhood(ratios, mine, theirs)
    apart = _differences(mine.clocks_mhz, theirs.clocks_mhz)
    clock_moved = bool(set(_OF_THE_CLOCK) & against_times.keys())
    clock_known = device != "cuda" or len(apart) >= FEWEST
    if min(len(far), len(near)) < FEWEST or (clock_moved and not clock_known):  # too little to examine
        doubts += [Doubt(reason) for name, reason in against_times.items() if name in _SHARED]
    tests = (
        _uneven_clock(apart),
        _order_dependent(ratios, far, near),
        _drifting(ratios),
        _clock_dependent(ratios, mine.clocks_mhz, theirs.clocks_mhz),
    )
    doubts += [doubt for doubt in tests if doubt is not None]
    return RatioTrust(doubts, _WHILE_CLOCK_MOVES if clock_moved else 0.0)


def _ratios(mine: Side, theirs: Side) -> dict[int, float]:
    shared = [n for n in mine.times_us if n in theirs.times_us and mine.times_us[n] > 0 and theirs.times_us[n] > 0]
    return dict(zip(shared, paired_ratios({n: mine.times_us[n] for n in shared}, theirs.times_us), strict=True))


def _differences(mine: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """How far the clock was from one side to the other in each round, as a logarithm."""
    return [math.log(mine[n] / theirs[n]) for n in mine if n in theirs and mine[n] > 0 and theirs[n] > 0]


def _uneven_clock(apart: Sequence[float]) -> Doubt | None:
    if len(apart) < FEWEST:
        return None
    mean = statistics.fmean(apart)
    uncertain = t_quantile(len(apart) - 1, _UNEVEN_CONFIDENCE) * statistics.stdev(apart) / math.sqrt(len(apart))
    if abs(mean) < max(_UNEVEN, uncertain):
        return None
    which = "higher" if mean > 0 else "lower"
    detail = f"the SM clock was {percent(abs(math.expm1(mean)))} {which} while it ran than while the other did"
    return Doubt({"name": "uneven-clock", "detail": detail}, (math.exp(-mean),))


def _by_neighbourhood(ratios: Mapping[int, float], mine: Side, theirs: Side) -> tuple[list[float], list[float]]:
    """The ratios of the rounds in which the two were neighbours less often, and more often.

    Two alone are neighbours once in every round, and twice unless the one that ran last begins the next round.
    """
    known = [n for n in ratios if n in mine.before and n in theirs.before]
    often = {n: (mine.before[n] == theirs.impl) + (theirs.before[n] == mine.impl) for n in known}
    least = min(often.values(), default=0)
    far, near = ([ratios[n] for n in known if (often[n] > least) == more] for more in (False, True))
    return far, near


def _order_dependent(ratios: Mapping[int, float], far: Sequence[float], near: Sequence[float]) -> Doubt | None:
    factors = _compare_parts(ratios, far, near, _NEIGHBOURS)
    if factors is None:
        return None
    detail = (
        f"the ratio is {statistics.median(near):.4g} where one ran right after the other, "
        f"{statistics.median(far):.4g} elsewhere: each changes how fast the next one runs"
    )
    return Doubt({"name": "order-dependent", "detail": detail}, factors)


def _drifting(ratios: Mapping[int, float]) -> Doubt | None:
    values = list(ratios.values())
    third = len(values) // 3
    first, last = values[:third], values[-third:] if third else []
    factors = _compare_parts(ratios, first, last, _DRIFT)
    if factors is None:
        return None
    detail = f"the ratio went from {statistics.median(first):.4g} to {statistics.median(last):.4g}"
    return Doubt({"name": "drifting", "detail": f"{detail}, first and last third of the rounds"}, factors)


def _clock_dependent(
    ratios: Mapping[int, float], mine: Mapping[int, float], theirs: Mapping[int, float]
) -> Doubt | None:
    clocks = {n: (mine[n] + theirs[n]) / 2 for n in ratios if n in mine and n in theirs}
    if len(clocks) < 3 * FEWEST:
        return None
    lowest, low, high, highest = (quantile(list(clocks.values()), q) for q in (0.05, 1 / 3, 2 / 3, 0.95))
    if highest - lowest <= CLOCK_MOVED * statistics.median(clocks.values()) or low >= high:
        return None
    slow, fast = ([n for n in clocks if chosen(clocks[n])] for chosen in (low.__ge__, high.__le__))
    factors = _compare_parts(ratios, [ratios[n] for n in slow], [ratios[n] for n in fast], _BY_CLOCK)
    if factors is None:
        return None
    parts = [
        f"{statistics.median(ratios[n] for n in part):.4g} at {statistics.median(clocks[n] for n in part):.0f} MHz"
        for part in (slow, fast)
    ]
    detail = f"the ratio depends on the clock: {parts[0]}, {parts[1]}"
    return Doubt({"name": "clock-dependent", "detail": detail}, factors)


def _compare_parts(
    ratios: Mapping[int, float], some: Sequence[float], others: Sequence[float], least: float
) -> tuple[float, float] | None:
    """The medians of two parts of the rounds relative to that of all; None where scatter may explain a difference."""
    if min(len(some), len(others)) < FEWEST:
        return None
    one, other, middle = (statistics.median(values) for values in (some, others, ratios.values()))
    if abs(one - other) <= least * middle:
        return None
    if abs(_rank_shift(some, others)) < _SHIFTED:
        return None
    return one / middle, other / middle


def _rank_shift(some: Sequence[float], others: Sequence[float]) -> float:
    """How far the ranks of some values are from those of others, in standard deviations of equal ones (Mann-Whitney).

    It asks which values are larger, not by how much: outliers do not matter, and of values that fall in two groups no
    median has to be known.
    """
    ordered = sorted(others)
    above = sum((bisect.bisect_left(ordered, x) + bisect.bisect_right(ordered, x)) / 2 for x in some)
    pairs = len(some) * len(others)
    return (above - pairs / 2) / math.sqrt(pairs * (len(some) + len(others) + 1) / 12)
