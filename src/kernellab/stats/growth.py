"""How time grows with size: the exponent of a power law, and where it changes. Pure arithmetic.

Time ~ size^e is a straight line in logarithms. One line is fitted, then every pair of lines that splits the sizes in
two. A pair is accepted only if it fits better than one line by more than chance explains.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from kernellab.stats.student import t_quantile

CONFIDENCE = 0.99
FEWEST, SPAN = 5, 8  # least number of sizes, and least factor between the smallest and the largest, for a fit
_PER_SIDE = 3  # least number of points on each side of a change
_LEAST_CHANGE = 0.1  # a smaller difference between exponents is not reported
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


class GrowthJson(TypedDict):
    exponent: float
    low: float
    high: float
    first: float
    last: float


class FitJson(TypedDict):
    whole: GrowthJson
    below: GrowthJson | None
    above: GrowthJson | None


@dataclass(frozen=True)
class Fit:
    """One exponent for all sizes and, where it changes, the exponents below and above the change."""

    whole: Growth
    below: Growth | None = None
    above: Growth | None = None

    def to_json(self) -> FitJson:
        below, above = (None if part is None else _to_json(part) for part in (self.below, self.above))
        return {"whole": _to_json(self.whole), "below": below, "above": above}


def fit(points: Iterable[Point]) -> Fit | None:
    """The growth of an implementation's time; None if there are too few sizes or they are too close together."""
    usable = sorted(p for p in points if p[0] > 0 and p[1] > 0)
    if len(usable) < FEWEST or usable[-1][0] < SPAN * usable[0][0] or len({p[0] for p in usable}) < len(usable):
        return None
    noise = statistics.fmean(_variance(p) for p in usable)
    line = _Line(usable)
    whole = line.growth(line.residual, len(usable) - 2, noise)
    below, above = _split(usable, line, noise) or (None, None)
    return Fit(whole, below, above)


class _Line:
    """Least squares through points in logarithms. `residual` is the sum of squared residuals."""

    def __init__(self, points: Sequence[Point]) -> None:
        xs, ys = ([math.log(p[i]) for p in points] for i in (0, 1))
        x, y = statistics.fmean(xs), statistics.fmean(ys)
        self.width = sum((a - x) ** 2 for a in xs)
        self.slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / self.width
        self.residual = sum((b - y - self.slope * (a - x)) ** 2 for a, b in zip(xs, ys, strict=True))
        self.first, self.last = points[0][0], points[-1][0]

    def growth(self, residual: float, dof: int, noise: float) -> Growth:
        """The slope with its interval, from the residuals, or from the points' own noise if that is larger."""
        half_width = t_quantile(dof, CONFIDENCE) * math.sqrt(max(residual / dof, noise) / self.width)
        return Growth(self.slope, self.slope - half_width, self.slope + half_width, self.first, self.last)


def _split(points: Sequence[Point], line: _Line, noise: float) -> tuple[Growth, Growth] | None:
    """The two lines that fit best, if they fit better than one line by more than chance explains.

    With normal residuals, two lines split at a given size reduce the sum of squares of one line to a share r or less
    with probability r^(dof/2): an F test with two degrees of freedom, in closed form. The probability is multiplied by
    the number of splits tried. A sum of squares is at least that of the points' own noise.
    """
    splits = range(_PER_SIDE, len(points) - _PER_SIDE + 1)
    pairs = [(_Line(points[:at]), _Line(points[at:])) for at in splits]
    if not pairs:
        return None
    below, above = min(pairs, key=lambda pair: pair[0].residual + pair[1].residual)
    residual, dof = below.residual + above.residual, len(points) - 4
    of_two_lines = max(residual, noise * dof)
    of_one_line = max(line.residual, noise * (dof + 2))
    chance = len(pairs) * (of_two_lines / of_one_line) ** (dof / 2) if of_one_line else 1.0
    if chance > 1 - CONFIDENCE or abs(above.slope - below.slope) < _LEAST_CHANGE:
        return None
    return below.growth(residual, dof, noise), above.growth(residual, dof, noise)


def _to_json(growth: Growth) -> GrowthJson:
    return {
        "exponent": growth.exponent,
        "low": growth.low,
        "high": growth.high,
        "first": growth.first,
        "last": growth.last,
    }


def _variance(point: Point) -> float:
    """The variance of ln(median) that its 99 % interval implies."""
    _, _, low, high = point
    return (math.log(high / low) / 2 / _NORMAL_99) ** 2 if 0 < low < high else 0.0
