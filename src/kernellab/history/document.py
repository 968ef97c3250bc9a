"""The history as plain rows and JSON: one row for each measurement, one object for each trend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kernellab.base.json import JsonObject, JsonValue
from kernellab.history.index import Index
from kernellab.history.queries import Filters, IndexedRun, Point, all_runs, points
from kernellab.history.trends import CommitChange, CommitTimes, Trend

COLUMNS = (
    "folder", "state", "time", "commit", "committed", "branch", "machine", "op", "impl", "case", "dtype", "device",
    "pass", "timer", "cache", "main", "status", "reason", "median_us", "low_us", "high_us", "rounds", "trust",
    "kernellab", "torch", "triton",
)  # fmt: skip


def rows(index: Index, filters: Filters) -> Iterator[JsonObject]:
    """Every measurement, whatever its status, in the order of time."""
    for point in points(index, filters, timed=False):
        run, line = point.run, point.measurement
        yield {
            "folder": str(run.folder),
            "state": run.state,
            "time": moment(run.time),
            "commit": run.commit,
            "committed": None if run.committed is None else moment(run.committed),
            "branch": run.branch,
            "machine": run.machine,
            "op": line.op,
            "impl": line.impl,
            "case": line.label,
            "dtype": line.dtype,
            "device": line.device,
            "pass": line.pass_name,
            "timer": line.timer,
            "cache": line.cache,
            "main": bool(line.is_main),
            "status": line.status,
            "reason": line.reason,
            "median_us": line.median_us,
            "low_us": line.low_us,
            "high_us": line.high_us,
            "rounds": line.rounds,
            "trust": line.trust,
            **{package: run.versions.get(package) for package in ("kernellab", "torch", "triton")},
        }


def document(index: Index, found: Iterable[Trend], failed: Iterable[Point]) -> JsonObject:
    """The JSON of `klab history`."""
    return {
        "folder": str(index.runs),
        "runs": [_run(run) for run in all_runs(index)],
        "trends": [_trend(trend) for trend in found],
        "failures": [_failure(point) for point in failed],
    }


def moment(seconds: float) -> str:
    """A time as ISO 8601, in UTC, to the second."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _run(run: IndexedRun) -> JsonObject:
    return {
        "folder": str(run.folder),
        "state": run.state,
        "problem": run.problem,
        "time": moment(run.time),
        "command": run.command,
        "commit": run.commit,
        "branch": run.branch,
        "machine": run.machine,
    }


def _failure(point: Point) -> JsonObject:
    run, line = point.run, point.measurement
    return {
        "op": line.op,
        "impl": line.impl,
        "case": line.label,
        "machine": run.machine,
        "status": line.status,
        "reason": line.reason,
        "folder": str(run.folder),
        "commit": run.commit,
        "time": moment(run.time),
    }


def _trend(trend: Trend) -> JsonObject:
    series, latest = trend.series, trend.series.latest
    line = latest.measurement
    commits: list[JsonValue] = [
        {
            "commit": group.commit,
            "branch": group.branch,
            "time": moment(group.time),
            "median_us": group.median_us,
            "runs": len(group.points),
        }
        for group in trend.commits
    ]
    return {
        "op": series.op,
        "impl": series.impl,
        "case": series.label,
        "machine": series.machine,
        "pass": series.pass_name,
        "timer": series.timer,
        "cache": series.cache,
        "main": bool(line.is_main),
        "latest": {
            "folder": str(latest.run.folder),
            "time": moment(latest.run.time),
            "commit": latest.run.commit,
            "median_us": line.median_us,
            "low_us": line.low_us,
            "high_us": line.high_us,
            "trust": line.trust,
        },
        "commits": commits,
        "changes": [_change(change) for change in trend.changes],
    }


def _change(change: CommitChange) -> JsonObject:
    size = change.size
    return {
        "verdict": change.verdict,
        "commit": change.commit.commit,
        "branch": change.commit.branch,
        "time": moment(change.commit.time),
        "candidates": _names(change.candidates),
        "before_us": size.before,
        "after_us": size.after,
        "ratio": size.ratio,
        "low": size.low,
        "high": size.high,
        "versions": list(change.versions),
        "doubt": change.doubt,
    }


def _names(commits: Iterable[CommitTimes]) -> list[JsonValue]:
    return [commit.commit for commit in commits]
