"""The trend of each implementation from commit to commit, and the commits at which its time changed."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from kernellab.history.index import Index
from kernellab.history.queries import Filters, Point, Series, series
from kernellab.stats.changes import Change, find_changes


@dataclass(frozen=True)
class CommitTimes:
    """The runs of one commit. A run with changed files, or of an unknown commit, stands alone."""

    points: tuple[Point, ...]

    @property
    def commit(self) -> str | None:
        return self.points[0].run.commit

    @property
    def branch(self) -> str | None:
        return self.points[0].run.branch

    @property
    def time(self) -> float:
        """Of the commit, in seconds since 1970; of the first run where that is unknown."""
        return self.points[0].run.position

    @property
    def medians_us(self) -> list[float]:
        return [point.measurement.median_us for point in self.points if point.measurement.median_us]

    @property
    def median_us(self) -> float:
        return statistics.median(self.medians_us)


@dataclass(frozen=True)
class CommitChange:
    """A change of an implementation's time, and the commit at which it happened."""

    commit: CommitTimes  # the first one with the new time
    previous: CommitTimes
    candidates: tuple[CommitTimes, ...]  # the commits at which it may have happened, in their order
    size: Change
    versions: tuple[str, ...]  # packages that were changed in the same step: `torch 2.12 → 2.13`
    doubt: str | None  # why most times since the change cannot be trusted

    @property
    def verdict(self) -> str:
        return "slower" if self.size.ratio > 1 else "faster"


@dataclass(frozen=True)
class Trend:
    """The history of one implementation at one case on one class of machines."""

    series: Series
    commits: tuple[CommitTimes, ...]
    changes: tuple[CommitChange, ...]


def trends(index: Index, filters: Filters) -> list[Trend]:
    """The trend of every implementation, case and machine that the filters let through."""
    return [trend(entry) for entry in series(index, filters)]


def trend(entry: Series) -> Trend:
    commits = _by_commit(entry)
    changes = find_changes([group.medians_us for group in commits])
    ends = [*(change.at for change in changes[1:]), len(commits)]
    found = [_change(commits, change, end) for change, end in zip(changes, ends, strict=True)] if changes else []
    return Trend(entry, tuple(commits), tuple(found))


def _by_commit(entry: Series) -> list[CommitTimes]:
    grouped: dict[object, list[Point]] = {}
    for point in entry.points:
        if point.measurement.median_us:  # a time of 0 is below the timer's resolution
            key = point.run.commit if point.run.is_clean else point.run.folder
            grouped.setdefault(key, []).append(point)
    commits = [CommitTimes(tuple(group)) for group in grouped.values()]
    return sorted(commits, key=lambda group: group.time)


def _change(commits: list[CommitTimes], change: Change, end: int) -> CommitChange:
    commit, previous = commits[change.at], commits[change.at - 1]
    return CommitChange(
        commit=commit,
        previous=previous,
        candidates=tuple(commits[change.earliest : change.latest + 1]),
        size=change,
        versions=_version_changes(previous, commit),
        doubt=_doubt(commits[change.at : end]),
    )


def _doubt(commits: list[CommitTimes]) -> str | None:
    """The most frequent reason not to trust the times, if most of them cannot be trusted."""
    verdicts = Counter(point.measurement.trust for group in commits for point in group.points)
    doubted = Counter({trust: count for trust, count in verdicts.items() if trust not in (None, "trusted")})
    return doubted.most_common(1)[0][0] if doubted.total() > verdicts.total() / 2 else None


def _version_changes(previous: CommitTimes, commit: CommitTimes) -> tuple[str, ...]:
    before, after = previous.points[-1].run.versions, commit.points[0].run.versions
    return tuple(
        f"{package} {before[package]} → {after[package]}"
        for package in sorted(before.keys() & after.keys())
        if before[package] != after[package]
    )
