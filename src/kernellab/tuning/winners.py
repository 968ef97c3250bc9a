"""The implementations that serve best at one measured size, and how certain that is.

A rule names an implementation for each pass, and a model uses them in two ways: in inference the forward pass alone, in
training both. The shipped choice stays unless another is certainly faster in one of these uses and certainly slower in
none, by the 99 % intervals of the paired rounds. Only implementations that are right take part.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kernellab.library.rules import PYTORCH
from kernellab.record import statuses, verdict
from kernellab.record.derived import DerivedResult
from kernellab.record.timed_series import TimedSeries, timed_series

PASSES = ("forward", "backward")


class Pair(NamedTuple):
    """The implementation of each pass, as a rule names them."""

    forward: str
    backward: str

    @property
    def inference(self) -> tuple[tuple[str, str], ...]:
        """The passes of a call without a gradient, each with the implementation that serves it."""
        return (("forward", self.forward),)

    @property
    def training(self) -> tuple[tuple[str, str], ...]:
        """The same with a gradient: both are PyTorch's if one is, because its backward needs its own graph."""
        names = (PYTORCH, PYTORCH) if PYTORCH in self else self
        return tuple(zip(PASSES, names, strict=True))


@dataclass(frozen=True)
class Decision:
    """The choice at a measured size. `over` has its speed over PyTorch's op, by pass, and `over_shipped` that over the
    shipped choice; a pass without a time is missing."""

    shipped: Pair
    chosen: Pair
    reason: str
    over: dict[str, float]
    over_shipped: dict[str, float]

    @property
    def switches(self) -> bool:
        return self.chosen != self.shipped


class Measured:
    """The times at one size. `baseline` is the implementation that stands for PyTorch's own op."""

    def __init__(self, results: Sequence[DerivedResult], baseline: str, refused: Collection[str]) -> None:
        """`refused`: implementations that failed elsewhere."""
        self._times: dict[tuple[str, str], TimedSeries] = {}  # by pass and implementation
        self.failures: dict[str, str] = dict.fromkeys(refused, "it failed its verification")
        series = {name: verdict.main_series(results, name) for name in PASSES}
        for result in results:
            impl = PYTORCH if result["impl"] == baseline else result["impl"]
            status, reason = result["derived"]["status"], result["derived"]["reason"]
            if status in statuses.FAILED:
                self.failures[impl] = f"{status}: {reason}"
            elif status in statuses.RIGHT and impl not in refused:
                for name in PASSES:
                    timed = timed_series(result, series[name])
                    if timed is not None:
                        self._times[name, impl] = timed

    def decide(self, shipped: Pair) -> Decision:
        pairs = [pair for pair in self._pairs() if self._is_timed(pair)]
        failed = next((name for name in shipped if name in self.failures), None)
        if failed is not None:
            chosen = min(pairs, key=self._rank, default=Pair(PYTORCH, PYTORCH))
            return self._decision(shipped, chosen, f"the shipped {failed} failed here: {self.failures[failed]}")
        if not self._is_timed(shipped):
            return self._decision(shipped, shipped, "the shipped choice was not timed here")
        better = [pair for pair in pairs if self._is_better(pair, shipped)]
        if not better:
            return self._decision(shipped, shipped, "nothing is certainly faster")
        return self._decision(shipped, min(better, key=self._rank), "certainly faster")

    def _pairs(self) -> Iterator[Pair]:
        """Every rule that could be written, PyTorch's op first."""
        ours = sorted({impl for _, impl in self._times} - {PYTORCH})
        yield Pair(PYTORCH, PYTORCH)
        yield from itertools.starmap(Pair, itertools.product(ours, (*ours, PYTORCH)))

    def _is_timed(self, pair: Pair) -> bool:
        return all(part in self._times for part in (*pair.inference, *pair.training))

    def _rank(self, pair: Pair) -> tuple[float, float]:
        return self._total_us(pair.training), self._total_us(pair.inference)

    def _total_us(self, parts: Sequence[tuple[str, str]]) -> float:
        return sum(statistics.median(self._times[part].entry["samples_us"]) for part in parts)

    def _is_better(self, pair: Pair, shipped: Pair) -> bool:
        uses = [
            self._saved_us(pair.inference, shipped.inference),
            self._saved_us(pair.training, shipped.training),
        ]
        return any(low > 0 for low, _ in uses) and all(high >= 0 for _, high in uses)

    def _saved_us(self, mine: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> tuple[float, float]:
        """The interval of the time that one use of implementations saves over another, over all its passes."""
        low = high = 0.0
        for my_part, their_part in zip(mine, theirs, strict=True):
            if my_part != their_part:
                saved = self._times[my_part].saved_us(self._times[their_part])
                if saved is None:
                    return float("-inf"), float("inf")
                low, high = low + saved[0], high + saved[1]
        return low, high

    def _decision(self, shipped: Pair, chosen: Pair, reason: str) -> Decision:
        pytorch = Pair(PYTORCH, PYTORCH)
        return Decision(shipped, chosen, reason, self._speeds(chosen, pytorch), self._speeds(chosen, shipped))

    def _speeds(self, chosen: Pair, other: Pair) -> dict[str, float]:
        """How many times as fast each pass is as another choice's."""
        speeds = {}
        for name, mine, theirs in zip(PASSES, chosen, other, strict=True):
            my_times, their_times = (self._times.get((name, impl)) for impl in (mine, theirs))
            ratio = my_times.over(their_times) if my_times and their_times else None
            if ratio is not None:
                speeds[name] = 1.0 if mine == theirs else ratio["median"]
        return speeds
