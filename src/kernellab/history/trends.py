"""The trend of each implementation from commit to commit, and the commits at which its time changed."""

from __future__ import annotations

import statistics
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
    return Trend(entry, tuple(commits), tuple(_change(commits, change) for change in changes))


def _by_commit(entry: Series) -> list[CommitTimes]:
    grouped: dict[object, list[Point]] = {}
    for point in entry.points:
        if point.measurement.median_us:  # a time of 0 is below the timer's resolution
            key = point.run.commit if point.run.is_clean else point.run.folder
            grouped.setdefault(key, []).append(point)
    commits = [CommitTimes(tuple(group)) for group in grouped.values()]
    return sorted(commits, key=lambda group: group.time)


def _change(commits: list[CommitTimes], change: Change) -> CommitChange:
    commit, previous = commits[change.at], commits[change.at - 1]
    return CommitChange(
        commit=commit,
        previous=previous,
        candidates=tuple(commits[change.earliest : change.latest + 1]),
        size=change,
        versions=_version_changes(previous, commit),
    )


def _version_changes(previous: CommitTimes, commit: CommitTimes) -> tuple[str, ...]:
    before, after = previous.points[-1].run.versions, commit.points[0].run.versions
    return tuple(
        f"{package} {before[package]} → {after[package]}"
        for package in sorted(before.keys() & after.keys())
        if before[package] != after[package]
    )
