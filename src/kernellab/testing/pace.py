"""Whether an implementation is slower than another by more than is allowed, from rounds in which both were timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernellab.record import verdict
from kernellab.record.derived import DerivedResult
from kernellab.reporting.text import numbers
from kernellab.stats.intervals import FEWEST


@dataclass(frozen=True)
class Pace:
    """How many times as long one implementation takes as another, with its 99 % interval; `allowed` is 1 + by."""

    impl: str
    other: str
    factor: float
    low: float
    high: float
    allowed: float
    enough_rounds: bool = True

    @property
    def verdict(self) -> Literal["slower", "not slower", "not resolved"]:
        if not self.enough_rounds:
            return "not resolved"
        if self.low > self.allowed:
            return "slower"
        return "not slower" if self.high <= self.allowed else "not resolved"

    @property
    def summary(self) -> str:
        """`1.35× as long as torch (1.30–1.41): slower`."""
        interval = f"{numbers.ratio(self.low)}–{numbers.ratio(self.high)}"
        return f"{numbers.times(self.factor)} as long as {self.other} ({interval}): {self.verdict}"

    @property
    def sentence(self) -> str:
        return (
            f"{self.impl} takes {numbers.ratio(self.factor)} times as long as {self.other} "
            f"(99 % interval {numbers.ratio(self.low)} to {numbers.ratio(self.high)}); "
            f"{numbers.ratio(self.allowed)} is allowed"
        )


def pace(mine: DerivedResult, other: DerivedResult, pass_name: str, by: float) -> Pace | None:
    """Of two results of the same run, op and case; None where one of them was not timed in this pass."""
    series = verdict.main_series([mine, other], pass_name)
    ratio = verdict.compare(*(verdict.entry_of(result, series) for result in (mine, other)))
    time = mine["derived"]["passes"][pass_name]["time"] if pass_name in mine["derived"]["passes"] else None
    if ratio is None or time is None:
        return None
    # `ratio` is how many times as fast: its inverse is how many times as long.
    return Pace(
        mine["impl"],
        other["impl"],
        factor=1 / ratio["median"],
        low=1 / ratio["high"],
        high=1 / ratio["low"],
        allowed=1 + by,
        enough_rounds=time["rounds"] >= FEWEST,
    )
