"""Whether an implementation is slower than another, or than before, by more than is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernellab.api.run import Run
from kernellab.comparison.compare import Comparison, result_id
from kernellab.comparison.pairs import ResultKey
from kernellab.record import statuses, verdict
from kernellab.record.derived import DerivedResult
from kernellab.record.timed_series import timed_series
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


def pace_beside(mine: DerivedResult, other: DerivedResult, pass_name: str, by: float) -> Pace | None:
    """Beside another result of the same run, op and case; None where one of them was not timed in this pass.

    The interval is that of rounds in which both were timed.
    """
    series = verdict.main_series([mine, other], pass_name)
    timed, other_timed = (timed_series(result, series) for result in (mine, other))
    ratio = timed.over(other_timed) if timed is not None and other_timed is not None else None
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


def paces_since(comparison: Comparison, mine: DerivedResult, by: float) -> Iterator[tuple[str, Pace]]:
    """Of each pass of a result, since the runs before. The interval includes how much times vary from run to run."""
    own = ResultKey(mine["op"], mine["impl"], mine["case"])
    for pair in comparison.pairs:
        if result_id(pair.key.result) == result_id(own):
            low, high = pair.low, pair.high
            known = low is not None and high is not None
            yield (
                pair.key.pass_name,
                Pace(
                    mine["impl"],
                    "before",
                    factor=pair.ratio,
                    low=low if low is not None else pair.ratio,
                    high=high if high is not None else pair.ratio,
                    allowed=1 + by,
                    enough_rounds=known,
                ),
            )


def why_not_compared(result: DerivedResult, earlier: Run | None, than: str | None) -> str:
    """Why there is no pace of a result that was timed: the reason is in the other run or implementation."""
    if earlier is None:
        return f"{than} was not timed in this pass"
    key = result_id(ResultKey(result["op"], result["impl"], result["case"]))
    for before in earlier.results:
        if result_id(ResultKey(before["op"], before["impl"], before["case"])) == key:
            status = before["derived"]["status"]
            if status not in statuses.RIGHT:
                return f"{result['impl']} was not right in the baseline, but {status}"
            return f"{result['impl']} was not timed in the same way in the baseline"
    return f"the baseline has no {result['impl']} at this case"
