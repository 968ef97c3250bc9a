"""How time grows with size: the exponent of a power law, and where it changes. Pure arithmetic.

Time ~ size^e is a straight line in logarithms. One line is fitted, then every pair of lines, one up to
some size and one from the next; a pair is believed only where chance would hardly do as well.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

CONFIDENCE = 0.99
FEWEST, SPAN = 5, 8  # sizes, and the factor from the smallest to the largest, below which nothing is said
_PER_SIDE = 3  # points on each side of a change
_WORTH_SAYING = 0.1  # exponents nearer to each other than this are one exponent
_NORMAL_99 = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)

Point = tuple[float, float, float, float]  # size, median, and the 99 % interval of the median


@dataclass(frozen=True)
class Growth:
    """time ~ size^exponent from `first` to `last`, with the 99 % interval of the exponent."""

    exponent: float
    low: float
    high: float
    first: float
    last: float


@dataclass(frozen=True)
class Fit:
    """One exponent for all sizes and, where it changes, those below and above."""

    whole: Growth
    below: Growth | None = None
    above: Growth | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def fit(points: Iterable[Point]) -> Fit | None:
    """The growth of one way's time, or None where there are too few sizes, or too near each other, to tell."""
    usable = sorted(p for p in points if p[0] > 0 and p[1] > 0)
    if len(usable) < FEWEST or usable[-1][0] < SPAN * usable[0][0] or len({p[0] for p in usable}) < len(usable):
        return None
    noise = statistics.fmean(_variance(p) for p in usable)
    line = _Line(usable)
    whole = line.growth(line.spread, len(usable) - 2, noise)
    below, above = _changed(usable, line, noise) or (None, None)
    return Fit(whole, below, above)


def t_quantile(dof: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors to each side hold Student's t with this probability.

    For whole degrees of freedom the distribution is a finite sum in the angle atan(t/√dof), which
    grows with t: bisection finds the angle.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        angle = (low + high) / 2
        if _within(angle, dof) < confidence:
            low = angle
        else:
            high = angle
    return math.sqrt(dof) * math.tan((low + high) / 2)


def _within(angle: float, dof: int) -> float:
    """P(|t| ≤ √dof · tan(angle)); Abramowitz and Stegun 26.7.3 and 26.7.4."""
    cosine, odd = math.cos(angle), dof % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(1 + odd, dof, 2):
        total += term
        term *= k / (k + 1) * cosine * cosine
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


class _Line:
    """Least squares through points in logarithms. `spread` is the sum of squared residuals."""

    def __init__(self, points: Sequence[Point]) -> None:
        xs, ys = ([math.log(p[i]) for p in points] for i in (0, 1))
        x, y = statistics.fmean(xs), statistics.fmean(ys)
        self.width = sum((a - x) ** 2 for a in xs)
        self.slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / self.width
        self.spread = sum((b - y - self.slope * (a - x)) ** 2 for a, b in zip(xs, ys, strict=True))
        self.first, self.last = points[0][0], points[-1][0]

    def growth(self, spread: float, dof: int, noise: float) -> Growth:
        """The slope with its interval: from how far points lie off the line, and at least from their own noise."""
        half = t_quantile(dof) * math.sqrt(max(spread / dof, noise) / self.width)
        return Growth(self.slope, self.slope - half, self.slope + half, self.first, self.last)


def _changed(points: Sequence[Point], line: _Line, noise: float) -> tuple[Growth, Growth] | None:
    """The two lines that fit best, if better than one line by more than chance.

    With normal residuals, two lines split at a given place leave at most a share r of one line's squares
    with probability r^(dof/2): an F test with two degrees of freedom, in closed form. There are `places` to
    try, so that much more may happen by chance. Squares below what the points' own noise leaves count as noise.
    """
    places = range(_PER_SIDE, len(points) - _PER_SIDE + 1)
    pairs = [(_Line(points[:at]), _Line(points[at:])) for at in places]
    if not pairs:
        return None
    below, above = min(pairs, key=lambda pair: pair[0].spread + pair[1].spread)
    two, dof = below.spread + above.spread, len(points) - 4
    left = max(two, noise * dof)
    alone = max(line.spread, noise * (dof + 2))
    by_chance = len(pairs) * (left / alone) ** (dof / 2) if alone else 1.0
    if by_chance > 1 - CONFIDENCE or abs(above.slope - below.slope) < _WORTH_SAYING:
        return None
    return below.growth(two, dof, noise), above.growth(two, dof, noise)


def _variance(point: Point) -> float:
    """The variance of ln(median) that its 99 % interval implies."""
    _, _, low, high = point
    return (math.log(high / low) / 2 / _NORMAL_99) ** 2 if 0 < low < high else 0.0
