"""How much the time of one run varies from run to run: measured by `klab doctor --aa` here or on another machine with
the same GPU, seen in the runs, or assumed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernellab.base import shape
from kernellab.machine.variation import CaseVariation, Variation

ASSUMED = 0.01  # where it was never measured
_LEAST = 0.0002  # no machine repeats a time better than this, whatever few runs show
_OTHER_MACHINE = 1.5  # times as much as was published of another machine: no two boards are alike
_ENOUGH_DOF = 4  # with fewer degrees of freedom, the scatter of the runs alone says too little


@dataclass(frozen=True)
class RunVariation:
    """The standard deviation of a time from run to run, relative to the time.

    `dof`: degrees of freedom of this figure; None where it is assumed. `source`: `measured` by `klab doctor --aa`,
    `published` of another machine with the same GPU, `assumed`, or seen in the `runs` that are compared.
    """

    relative: float
    dof: int | None
    source: Literal["measured", "published", "assumed", "runs"]


_UNKNOWN = RunVariation(ASSUMED, None, "assumed")


def known_variation(measured: Variation | None, timer: str | None, cache: str | None, median_us: float) -> RunVariation:
    """What was measured on this class of machine, for a time of this length.

    Short times vary more than long ones. Between two measured cases, the logarithm of the variation is interpolated
    over that of the time. A time above the longest case varies as that case does; one below the shortest varies by as
    many microseconds.
    """
    points = _points(measured, timer, cache) if measured is not None and _is_sound(measured) else []
    if measured is None or not points:
        return _UNKNOWN
    return RunVariation(max(_interpolate(points, median_us), _LEAST), measured["runs"] - 1, "measured")


def _is_sound(measured: Variation) -> bool:
    """Whether the document, which anything may have written, is one."""
    return shape.difference(measured, Variation) is None and measured["runs"] > 1


def _points(measured: Variation, timer: str | None, cache: str | None) -> list[tuple[float, float]]:
    """(time, variation) of the cases of this timer, in this state of the cache if that was measured."""
    same_timer = [case for case in measured["cases"] if case["timer"] == timer]
    same_cache = [case for case in same_timer if case["cache"] == cache]
    return sorted(point for case in same_cache or same_timer if (point := _point(case)))


def _point(case: CaseVariation) -> tuple[float, float] | None:
    us, variation = case["median_us"], case["variation"]
    return (us, variation) if us is not None and 0 < us < math.inf and 0 <= variation < math.inf else None


def _interpolate(points: Sequence[tuple[float, float]], us: float) -> float:
    shortest_us, of_shortest = points[0]
    if us <= shortest_us:
        return of_shortest * shortest_us / us
    for (low_us, low), (high_us, high) in itertools.pairwise(points):
        if us < high_us:
            share = math.log(us / low_us) / math.log(high_us / low_us)
            return math.exp((1 - share) * math.log(max(low, _LEAST)) + share * math.log(max(high, _LEAST)))
    return points[-1][1]


def variation_elsewhere(published: Variation | None, timer: str | None, cache: str | None, us: float) -> RunVariation:
    """What is known from another machine with the same GPU, and more: machines differ."""
    known = known_variation(published, timer, cache, us)
    return known if known == _UNKNOWN else RunVariation(_OTHER_MACHINE * known.relative, known.dof, "published")


def larger(first: RunVariation, second: RunVariation) -> RunVariation:
    """The variation of two sides, for both: the larger one, with the fewer degrees of freedom."""
    dofs = [variation.dof for variation in (first, second) if variation.dof is not None]
    chosen = max(first, second, key=lambda variation: variation.relative)
    return RunVariation(chosen.relative, min(dofs) if chosen.dof is not None else None, chosen.source)


def with_own_scatter(known: RunVariation, logarithms: Sequence[Sequence[float]]) -> RunVariation:
    """The variation, where sides have several runs: `logarithms` are those of their times, side by side.

    A measured variation is pooled with the scatter of these runs, and never below it. An assumed one is replaced by
    that scatter as soon as there are enough runs.
    """
    dof = sum(len(times) - 1 for times in logarithms if times)
    if dof < 1:
        return known
    squares = sum((len(times) - 1) * statistics.variance(times) for times in logarithms if len(times) > 1)
    own = squares / dof
    if known.dof is None:
        if dof < _ENOUGH_DOF:
            return RunVariation(max(known.relative, math.sqrt(own)), None, known.source)
        return RunVariation(max(math.sqrt(own), _LEAST), dof, "runs")
    pooled = (known.dof * known.relative**2 + squares) / (known.dof + dof)
    return RunVariation(math.sqrt(max(pooled, own)), known.dof + dof, known.source)
