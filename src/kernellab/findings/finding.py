"""A finding: something that costs time, its evidence, what to do about it, and how sure that is.

`sure` says what it rests on: `measured` (times), `computed` (counted in the code or by torch), `likely` (a model of the
GPU agrees with it), `possible` (nothing else explains the time).
"""

from __future__ import annotations

from dataclasses import dataclass, field

SURE = {"measured": 1.0, "computed": 0.9, "likely": 0.7, "possible": 0.4}
# The model's word on how much something costs is good to about this factor; a measured time is exact.
_MODEL = 2.0


@dataclass(frozen=True)
class Evidence:
    """A number and where it comes from: timing, profiler, machine code, launch, GPU database, model, declaration."""

    what: str
    value: float | int | str
    unit: str
    source: str


@dataclass(frozen=True)
class Finding:
    """`gain` is how many times as fast the way would be without it, estimated; None where that cannot be said."""

    rule: str
    title: str
    gain: float | None
    do: str
    sure: str
    evidence: list[Evidence] = field(default_factory=list)

    @property
    def weight(self) -> float:
        return (self.gain - 1) * SURE[self.sure] if self.gain else 0.0


def settled(estimate: float, headroom: float | None) -> float:
    """A model's estimate in the light of a measurement.

    Nobody gains more than the way's distance from the roof. Where that is within the model's error of the estimate,
    the flaw accounts for all of it; where it is far more, something else costs the rest.
    """
    if headroom is None:
        return estimate
    return headroom if estimate >= headroom / _MODEL else estimate


def gained(estimate: float, headroom: float | None, least: float) -> float | None:
    """The settled gain; None where it is less than `least`, or where the model alone says that it is: a measurement
    may confirm a flaw the model sees, it does not make one."""
    gain = settled(estimate, headroom)
    return gain if min(estimate, gain) >= least else None


def capped(estimate: float, headroom: float | None) -> float:
    """An estimate that is no model's of the time: the rest of the distance from the roof is not laid to its charge."""
    return estimate if headroom is None else min(estimate, headroom)
