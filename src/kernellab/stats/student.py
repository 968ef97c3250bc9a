"""Student's t distribution: quantiles and tail probabilities, for a mean whose scatter is itself estimated."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache

_BISECTIONS = 80


@lru_cache(maxsize=4096)
def t_quantile(dof: int, confidence: float) -> float:
    """The t such that |Student's t| ≤ t with this probability.

    For integer degrees of freedom, the distribution is a finite sum in the angle atan(t/√dof), which grows with t.
    Bisection finds the angle.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        angle = (low + high) / 2
        if _probability_within(angle, dof) < confidence:
            low = angle
        else:
            high = angle
    return math.sqrt(dof) * math.tan((low + high) / 2)


def quantile(dof: int | None, confidence: float) -> float:
    """`t_quantile`, or that of the normal distribution where the scatter is known: `dof` is None."""
    if dof is None:
        return statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    return t_quantile(dof, confidence)


def tail_probability(t: float, dof: int | None) -> float:
    """The probability of a value at least as far from 0 as `t`; `dof` is None where the scatter is known."""
    if dof is None:
        return math.erfc(abs(t) / math.sqrt(2))
    return max(0.0, 1 - _probability_within(math.atan(abs(t) / math.sqrt(dof)), dof))


def _probability_within(angle: float, dof: int) -> float:
    """P(|t| ≤ √dof · tan(angle)): Abramowitz and Stegun 26.7.3 and 26.7.4."""
    cosine, odd = math.cos(angle), dof % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(1 + odd, dof, 2):
        total += term
        term *= k / (k + 1) * cosine * cosine
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
