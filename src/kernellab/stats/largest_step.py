"""How large the largest step of a series is by chance, where the series is split at every place."""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def normal_of_t(square: float, freedom: int) -> float:
    """The normal deviate that is as improbable as Student's t, given by its square (Wallace, 1959)."""
    return (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(square / freedom))


def chance_of_largest(z: float, runs: int, places: int, fewest: int) -> float:
    """The probability that the largest of the standardised steps at all places of a series exceeds `z`.

    `fewest`: the number of runs that are at least on either side of a place.
    The smaller of two bounds: the sum over all places, good for a few, and the approximation of James, James and
    Siegmund (1987), which accounts for how alike the steps at neighbouring places are.
    """
    by_place = 2 * places * _NORMAL.cdf(-z)
    if z < 1 or runs < 2 * fewest + 1:
        return min(1.0, by_place)
    ends = (fewest / runs, 1 - fewest / runs)
    width = math.log(ends[1] / (1 - ends[1])) - math.log(ends[0] / (1 - ends[0]))
    steps = 32
    total = 0.0
    for number in range(steps):  # over the logit of the place, where the integrand is flat
        logit = -width / 2 + width * (number + 0.5) / steps
        place = 1 / (1 + math.exp(-logit))
        total += _overshoot(z / math.sqrt(runs * place * (1 - place))) * width / steps
    return min(1.0, by_place, z * _NORMAL.pdf(z) * total)


def _overshoot(x: float) -> float:
    """Siegmund's correction for a maximum over separate places instead of a continuum."""
    return (2 / x) * (_NORMAL.cdf(x / 2) - 0.5) / ((x / 2) * _NORMAL.cdf(x / 2) + _NORMAL.pdf(x / 2))


def limit_of_largest(chance: float, runs: int, fewest: int) -> float:
    """The `z` that the maximum exceeds with this probability."""
    low, high = 1.0, 10.0
    while high - low > 0.01:
        middle = (low + high) / 2
        if chance_of_largest(middle, runs, runs, fewest) > chance:
            low = middle
        else:
            high = middle
    return high
