"""Intervals for medians and ratios, and the error level of repeated looks. Pure arithmetic.

Intervals come from order statistics: the probability that the median lies between the k-th smallest and the k-th
largest of n independent values is counted exactly, for any distribution. A bootstrap of the median chooses among the
same order statistics by a coarser count: with 15 values, its 99 % interval misses the median in 3.5 % of all cases
instead of 1 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

CONFIDENCE = 0.99
PRECISION = 0.005  # two implementations whose times differ by less are the same
FEWEST = 8  # with fewer values, no interval has 99 % confidence

# Stopping at the first look that gives an answer would be wrong more often than 1 in 100, because each look is one
# more chance to be wrong. So the looks share the error level. An early look gets little of it, and decides only if the
# difference is overwhelming.
FIRST_LOOK, LOOKS = 64, 7


def share(look: int) -> float:
    """The share of the error level that a look, counted from 1, may spend."""
    return 2.0 ** (look - 1 - LOOKS)


def level(looks: int, *, decided: bool) -> float:
    """The error level of the intervals of a measurement that ended after this many looks.

    If a look decided the measurement, the level is that look's share. If time ended it, the level is half of what the
    looks left over, because time can end it in two ways: the least time after a decision, and the time budget.
    """
    alpha = 1 - CONFIDENCE
    if decided and looks:
        return alpha * share(looks)
    return alpha * (1 - sum(share(look) for look in range(1, looks + 1))) / 2


def median_interval(values: Sequence[float], error: float = 1 - CONFIDENCE) -> tuple[float, float]:
    """An interval that misses the median with at most this probability.

    With fewer than eight values, not even the extremes reach 99 %. They are returned all the same; callers check the
    number of values.
    """
    ordered = sorted(values)
    rank = _rank(len(ordered), error)
    return ordered[rank], ordered[len(ordered) - 1 - rank]


@lru_cache(maxsize=4096)
def _rank(n: int, error: float) -> int:
    """The largest index for which the values at it, counted from both ends, enclose the median often enough.

    P(Binomial(n, ½) < k) must stay below half the error level. It is computed in integers, so it is exact for any n.
    """
    allowed = Fraction(error).limit_denominator(10**9) / 2 * 2**n
    below, k = 0, 0
    while k < n // 2:
        below += math.comb(n, k)
        if below > allowed:
            break
        k += 1
    return max(0, k - 1)


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile, interpolated."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def by_round(samples: Iterable[float], rounds: Iterable[int]) -> dict[int, float]:
    """One value per round, the median of its samples: samples of one round are not independent."""
    grouped: dict[int, list[float]] = {}
    for sample, number in zip(samples, rounds, strict=True):
        grouped.setdefault(number, []).append(sample)
    return {number: values[0] if len(values) == 1 else statistics.median(values) for number, values in grouped.items()}


def paired_ratios(mine: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """theirs / mine for every round that has both. A ratio above 1 means that mine is faster."""
    return [theirs[n] / mine[n] for n in mine if n in theirs and mine[n] > 0]


def compare_ratio(low: float, high: float, precision: float = PRECISION) -> str:
    """`faster`, `slower`, `same` or `not resolved`, from the interval of the paired ratio."""
    if low > 1:
        return "faster"
    if high < 1:
        return "slower"
    return "same" if low >= 1 - precision and high <= 1 + precision else "not resolved"


def verdict_on(ratios: Sequence[float], error: float, precision: float) -> str:
    """The verdict from paired ratios. With fewer than eight rounds, nothing is resolved."""
    if len(ratios) < FEWEST:
        return "not resolved"
    return compare_ratio(*median_interval(ratios, error), precision)
