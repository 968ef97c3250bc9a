"""Where a series of times changed for good: change points, each with its size and how certain its place is.

The series consists of groups, one for each commit, of one or more runs. A change lies between two groups. Everything is
computed on logarithms, so that 3 % is 3 % at any time. The method, in three steps:

1. *Propose*: the best split of many intervals of the series, short and long (seeded binary segmentation, Kovács and
   others, 2023), so that a change is found that was undone a few commits later.
2. *Place*: each split is moved to where the two sides differ most, between its neighbours.
3. *Verify*: the probability that the best split of a series without a change is as clear. The least certain split is
   removed until all are below `ALPHA`.

The noise is estimated from the series itself: from run to run, and from commit to commit where runs of one commit are
more alike than runs of different commits. A single run that stands out is no change: at least two have to agree.
No randomness: the same series has the same changes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from kernellab.stats.intervals import CONFIDENCE, PRECISION
from kernellab.stats.largest_step import chance_of_largest, limit_of_largest, normal_of_t

ALPHA = 3e-4  # of one split; what this means for whole histories: docs/results/history.md
_PROPOSED = 0.05  # of a split that is only proposed
_FEWEST_RUNS = 2  # on either side
_FEWEST_COMMITS = 6  # from which on noise from commit to commit can be estimated
_LEAST_NOISE = 0.001  # no time is more exact: a timer's steps may hide the noise
_SHORTEST, _LONGEST = 1e-9, 1e15  # no time is beyond: so that no ratio of a stranger's times is infinite
_OUTLIER = 5.0  # standard deviations from its neighbours' median
_LEAST_LIKELIHOOD = math.exp(-7.35 / 2)  # of a place relative to the best, for 95 % of all changes (Hansen, 2000)
_NEARLY = 0.8  # what finding the commit next to the right one is worth
_NORMAL = NormalDist()
_NORMAL_MAD = 1 / _NORMAL.inv_cdf(0.75)  # the standard deviation over the median deviation


@dataclass(frozen=True)
class Change:
    """A change. Times are geometric means of the stretches on its two sides."""

    at: int  # the first group after the change
    earliest: int  # the change may also be at any group from here
    latest: int  # to here
    before: float
    after: float
    low: float  # the 99 % interval of after / before
    high: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


def find_changes(groups: Sequence[Sequence[float]]) -> list[Change]:
    """The changes of a series, the first one first. `groups`: the times of the runs of each commit, in order."""
    series = _Series(groups)
    splits = _place(series, _propose(series))
    while splits:
        chances = [_chance(series, left, split, right) for left, split, right in _neighbours(series, splits)]
        worst = max(range(len(splits)), key=chances.__getitem__)
        if chances[worst] <= ALPHA:
            break
        splits = _place(series, splits[:worst] + splits[worst + 1 :])
    changes = [_change(series, left, split, right) for left, split, right in _neighbours(series, splits)]
    return [change for change in changes if not 1 - PRECISION < change.ratio < 1 + PRECISION]


class _Series:
    """Logarithms of all runs in order, with sums that make the mean of any stretch of groups cheap."""

    def __init__(self, groups: Sequence[Sequence[float]]) -> None:
        logs = [[math.log(min(max(time, _SHORTEST), _LONGEST)) for time in group] for group in groups]
        self.commit_noise = _commit_noise(logs)
        values = [value for group in logs for value in group]
        self.noise = max(_LEAST_NOISE, _noise(values), self.commit_noise)
        values = _without_outliers(values, self.noise)
        self.starts = [0, *itertools.accumulate(len(group) for group in groups)]  # of each group, in runs; the end
        self.groups = len(groups)
        self._sums = [0.0, *itertools.accumulate(values)]
        self._squares = [0.0, *itertools.accumulate(value * value for value in values)]
        self._group_squares = [0.0, *itertools.accumulate(self.runs(g, g + 1) * self.mean(g, g + 1) ** 2
                                                          for g in range(len(groups)))]  # fmt: skip

    def runs(self, left: int, right: int) -> int:
        """The number of runs of the groups from `left` up to `right`, which is not one of them."""
        return self.starts[right] - self.starts[left]

    def mean(self, left: int, right: int) -> float:
        return (self._sums[self.starts[right]] - self._sums[self.starts[left]]) / self.runs(left, right)

    def spread(self, left: int, right: int) -> float:
        """The sum of squared deviations of the runs of a stretch from its mean."""
        squares = self._squares[self.starts[right]] - self._squares[self.starts[left]]
        return max(0.0, squares - self.runs(left, right) * self.mean(left, right) ** 2)

    def group_spread(self, left: int, right: int) -> float:
        """The same of the means of its groups, each with the weight of its runs."""
        squares = self._group_squares[right] - self._group_squares[left]
        return max(0.0, squares - self.runs(left, right) * self.mean(left, right) ** 2)

    def gain(self, left: int, split: int, right: int) -> float:
        """By how much the sum of squares shrinks if the stretch has two means."""
        before, after = self.runs(left, split), self.runs(split, right)
        step = self.mean(split, right) - self.mean(left, split)
        return before * after / (before + after) * step * step

    def best_split(self, left: int, right: int) -> tuple[float, int] | None:
        """The split of a stretch with the largest gain, and that gain; None if it is too short."""
        sums, starts = self._sums, self.starts
        first, last = starts[left], starts[right]
        total, count = sums[last] - sums[first], last - first
        best, place = -1.0, -1
        for split in range(left + 1, right):
            before = starts[split] - first
            if before < _FEWEST_RUNS or count - before < _FEWEST_RUNS:
                continue
            # The gain in another form: no division by the sizes of both sides.
            excess = sums[starts[split]] - sums[first] - total * before / count
            gain = excess * excess * count / (before * (count - before))
            if gain > best:
                best, place = gain, split
        return (best, place) if place >= 0 else None


def _noise(values: Sequence[float]) -> float:
    """The standard deviation of single runs, from their differences to the next: changes hardly matter."""
    steps = [abs(after - before) for before, after in itertools.pairwise(values)]
    return _NORMAL_MAD * statistics.median(steps) / math.sqrt(2) if steps else 0.0


def _commit_noise(groups: Sequence[Sequence[float]]) -> float:
    """The same from the differences of commits' means, as if every run were of a commit of its own: larger where the
    runs of one commit share what differs from day to day. 0 with too few commits to tell."""
    if len(groups) < _FEWEST_COMMITS:
        return 0.0
    steps = [
        abs(statistics.fmean(after) - statistics.fmean(before)) / math.sqrt(1 / len(before) + 1 / len(after))
        for before, after in itertools.pairwise(groups)
    ]
    return _NORMAL_MAD * statistics.median(steps)


def _without_outliers(values: list[float], noise: float) -> list[float]:
    """The values, those far from the median of their neighbours replaced by it. A step remains a step."""
    if len(values) < 5:
        return values
    cleaned = []
    for at, value in enumerate(values):
        inner = 2 <= at <= len(values) - 3
        start = at - 2 if inner else 0 if at < 2 else len(values) - 3
        median = statistics.median(values[start : start + (5 if inner else 3)])
        cleaned.append(value if abs(value - median) <= _OUTLIER * noise else median)
    return cleaned


# Propose and place -------------------------------------------------------------------------------------


def _propose(series: _Series) -> list[int]:
    """Splits of intervals, the clearest first, as long as no interval holds two."""
    limit = (limit_of_largest(_PROPOSED, series.starts[-1], _FEWEST_RUNS) * series.noise) ** 2
    candidates = []
    for left, right in _intervals(series.groups):
        best = series.best_split(left, right)
        if best is not None and best[0] > limit:
            candidates.append((best[0], best[1], left, right))
    splits: list[int] = []
    for _, split, left, right in sorted(candidates, key=lambda candidate: -candidate[0]):
        if not any(left < other < right for other in splits):
            splits.append(split)
    return sorted(splits)


def _intervals(groups: int) -> Iterator[tuple[int, int]]:
    """Overlapping intervals of all lengths: all of one length, then of a length shorter by the square root of 2."""
    length = float(groups)
    while length >= 2:
        width = math.ceil(length)
        count = max(1, 2 * math.ceil(groups / length) - 1)
        for number in range(count):
            left = round(number * (groups - width) / max(1, count - 1))
            yield left, left + width
        length /= math.sqrt(2)


def _place(series: _Series, splits: list[int]) -> list[int]:
    """The splits, each moved to its best place between its neighbours."""
    for _ in range(3):
        moved: list[int] = []
        for at in range(len(splits)):
            left = moved[-1] if moved else 0
            right = splits[at + 1] if at + 1 < len(splits) else series.groups
            best = series.best_split(left, right)
            if best is not None:
                moved.append(best[1])
        if moved == splits:
            break
        splits = moved
    return splits


def _neighbours(series: _Series, splits: list[int]) -> list[tuple[int, int, int]]:
    """Each split with the splits, or ends, before and after it."""
    return list(zip([0, *splits], splits, [*splits[1:], series.groups], strict=False))


# Verify ------------------------------------------------------------------------------------------------


def _chance(series: _Series, left: int, split: int, right: int) -> float:
    """The probability of so clear a split in a stretch without a change."""
    gain, runs = series.gain(left, split, right), series.runs(left, right)
    chance = 0.0
    for variance, freedom in _variances(series, left, split, right):
        z = normal_of_t(gain / variance, freedom)
        chance = max(chance, chance_of_largest(z, runs, right - left - 1, _FEWEST_RUNS))
    return chance


def _variances(series: _Series, left: int, split: int, right: int) -> Iterator[tuple[float, int]]:
    """The variance of a run around the two means with its degrees of freedom: by runs, and by commits."""
    runs, commits = series.runs(left, right), right - left
    by_runs = series.spread(left, split) + series.spread(split, right)
    yield max(_LEAST_NOISE**2, by_runs / max(1, runs - 2)), max(1, runs - 2)
    if series.commit_noise:
        yield max(_LEAST_NOISE, series.commit_noise) ** 2, series.groups - 2
    if commits >= _FEWEST_COMMITS:
        by_commits = series.group_spread(left, split) + series.group_spread(split, right)
        memory = _memory(series, left, split, right)
        variance = by_commits / (commits - 2) * (1 + memory) / (1 - memory)
        yield max(_LEAST_NOISE**2, variance), commits - 2


def _memory(series: _Series, left: int, split: int, right: int) -> float:
    """How alike neighbouring commits are beyond chance: machines drift, and slow drift is no change."""
    deviations = [
        series.mean(group, group + 1) - series.mean(*((left, split) if group < split else (split, right)))
        for group in range(left, right)
    ]
    squares = sum(deviation * deviation for deviation in deviations)
    products = sum(before * after for before, after in itertools.pairwise(deviations))
    chance = 1 / math.sqrt(len(deviations))
    return min(0.9, max(0.0, products / squares - chance)) if squares else 0.0


def _change(series: _Series, left: int, split: int, right: int) -> Change:
    variance = max(variance for variance, _ in _variances(series, left, split, right))
    best = series.gain(left, split, right)
    # How likely each place is, relative to the likeliest.
    likelihood = {
        place: math.exp(min(0.0, series.gain(left, place, right) - best) / (2 * variance))
        for place in range(left + 1, right)
        if series.runs(left, place) >= _FEWEST_RUNS <= series.runs(place, right)
    }
    places = [place for place, value in likelihood.items() if value > _LEAST_LIKELIHOOD]
    # The place that is right most often, where a place next to the right one is nearly as good.
    at = max(
        places,
        key=lambda place: (
            likelihood[place] + _NEARLY * (likelihood.get(place - 1, 0.0) + likelihood.get(place + 1, 0.0))
        ),
    )
    before, after = series.mean(left, at), series.mean(at, right)
    error = math.sqrt(variance * (1 / series.runs(left, at) + 1 / series.runs(at, right)))
    margin = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2) * error
    return Change(
        at=at,
        earliest=min(places),
        latest=max(places),
        before=math.exp(before),
        after=math.exp(after),
        low=math.exp(after - before - margin),
        high=math.exp(after - before + margin),
    )
