"""The history in the terminal: the ops and runs there are, or the trends of one op and where they changed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kernellab.base.text import printable
from kernellab.history.digest import COMPLETE, UNREADABLE
from kernellab.history.queries import IndexedRun, Point
from kernellab.history.trends import CommitChange, CommitTimes, Trend
from kernellab.reporting.charts.characters import sparkline
from kernellab.reporting.text import numbers
from kernellab.reporting.text.table import Column, Row, Table, print_table

_TREND_WIDTH = 40  # characters
_LEAST_RANGE = 0.05  # a trend that varies less does not fill the height of its line: noise should not look like hills
_RECENT = 10  # runs that the overview lists
_REASON = 200  # characters of a reason
_COMMIT = 10  # characters that name a commit


def show_overview(
    runs: Sequence[IndexedRun], found: Sequence[Trend], failed: Sequence[Point], folder: Path, name: str, out: Console
) -> None:
    """Every op with its machine and changes, and the latest runs. `name`: of the folder of the runs, for people."""
    if found:
        print_table(Table(_OP_COLUMNS, [Row(_op_cells(group, failed)) for group in _by_op(found)]), out)
        out.print()
    recent = sorted(runs, key=lambda run: run.time, reverse=True)[:_RECENT]
    unreadable = [run for run in runs if run.state == UNREADABLE and run not in recent]
    print_table(
        Table(_RUN_COLUMNS, [Row(_run_cells(run, folder)) for run in recent + unreadable], total=len(runs)), out
    )
    states = [f"{count} {state}" for state in sorted({run.state for run in runs} - {COMPLETE})
              if (count := sum(run.state == state for run in runs))]  # fmt: skip
    _say(f"{numbers.count(len(runs), 'run')} in {printable(name)}{': ' if states else ''}{', '.join(states)}."
         " klab history OP shows how its times changed.", out)  # fmt: skip


def show_trends(found: Sequence[Trend], failed: Sequence[Point], out: Console) -> None:
    """A table for each machine, then every change with the commit where it happened, and what fails now."""
    for machine, group in itertools.groupby(found, key=lambda trend: trend.series.machine):
        trends = list(group)
        out.print(Text.assemble((printable(trends[0].series.op, 80), "bold"), f" on {printable(machine, 120)}"))
        width = min(_TREND_WIDTH, out.width // 3)
        print_table(Table(_TREND_COLUMNS, [Row(_trend_cells(trend, width)) for trend in trends]), out)
        changes = [(trend, change) for trend in trends for change in trend.changes]
        for trend, change in sorted(changes, key=lambda pair: pair[1].commit.time):
            _say(f" {_change_sentence(trend, change)}", out, "red" if change.verdict == "slower" else "green")
        if not changes:
            _say(" No change of time is certain.", out)
        out.print()
    for point in failed:
        _say(_failure_sentence(point), out, "red")


_OP_COLUMNS = (
    Column("op", "left", cut_to=20),
    Column("machine", "left", cut_to=20),
    Column("impls"),
    Column("cases"),
    Column("commits"),
    Column("runs"),
    Column("latest", drop=1),
    Column("slower"),
    Column("faster"),
    Column("failing"),
)
_RUN_COLUMNS = (
    Column("run", "left", cut_to=24),
    Column("began", "left", drop=1),
    Column("state", "left"),
    Column("commit", "left"),
    Column("branch", "left", cut_to=12, drop=2),
    Column("machine", "left", cut_to=12, drop=3),
    Column("command or problem", "left", cut_to=20),
)
_TREND_COLUMNS = (
    Column("case", "left", cut_to=16),
    Column("impl", "left", cut_to=10),
    Column("pass", "left", drop=2),
    Column("timer", "left", drop=5),
    Column("oldest to newest commit", "left"),
    Column("commits"),
    Column("runs", drop=1),
    Column("latest"),
    Column("99 %"),
    Column("trust", "left", drop=3, cut_to=12),
    Column("measured", "left", drop=4),
)


def _by_op(found: Sequence[Trend]) -> list[list[Trend]]:
    grouped: dict[tuple[str, str], list[Trend]] = {}
    for trend in found:
        grouped.setdefault((trend.series.op, trend.series.machine), []).append(trend)
    return list(grouped.values())


def _op_cells(group: list[Trend], failed: Sequence[Point]) -> list[str]:
    op, machine = group[0].series.op, group[0].series.machine
    failing = sum((point.measurement.op, point.run.machine) == (op, machine) for point in failed)
    points = [point for trend in group for point in trend.series.points]
    verdicts = [change.verdict for trend in group for change in trend.changes]
    return [
        op,
        machine,
        str(len({trend.series.impl for trend in group})),
        str(len({trend.series.case for trend in group})),
        str(len({point.run.commit for point in points})),
        str(len({point.run.folder for point in points})),
        _date(max(point.run.time for point in points)),
        str(verdicts.count("slower") or "–"),
        str(verdicts.count("faster") or "–"),
        str(failing or "–"),
    ]


def _run_cells(run: IndexedRun, folder: Path) -> list[str]:
    return [
        str(run.folder.relative_to(folder)),
        _date(run.time, minutes=True),
        run.state,
        commit_text(run.commit),
        run.branch or "–",
        run.machine or "–",
        (run.problem or run.command).replace(f"{run.folder}{os.sep}", ""),
    ]


def _trend_cells(trend: Trend, width: int) -> list[str]:
    series, latest = trend.series, trend.series.latest
    line = latest.measurement
    median, low, high = line.median_us or 0.0, line.low_us or 0.0, line.high_us or 0.0
    return [
        series.label,
        series.impl,
        series.pass_name,
        ", ".join(filter(None, (series.timer, series.cache))),
        sparkline([group.median_us for group in trend.commits], width, _LEAST_RANGE),
        str(len(trend.commits)),
        str(len(series.points)),
        numbers.duration(median),
        numbers.spread(median, low, high),
        line.trust or "–",
        _date(latest.run.time),
    ]


def _change_sentence(trend: Trend, change: CommitChange) -> str:
    series, size = trend.series, change.size
    low, high = sorted(abs(ratio - 1) for ratio in (size.low, size.high))
    more = "longer" if change.verdict == "slower" else "less"
    sentence = (
        f"{series.impl} at {series.label} takes {_percent(abs(size.ratio - 1))} {more}"
        f" ({_percent(low)} to {_percent(high)}) since {_commit(change.commit)}:"
        f" {numbers.duration(size.before)} → {numbers.duration(size.after)}"
    )
    others = [commit for commit in change.candidates if commit is not change.commit]
    if others:
        first, last = (commit_text(change.candidates[at].commit) for at in (0, -1))
        sentence += f"; it may be any of the {len(change.candidates)} commits from {first} to {last}"
    if change.versions:
        sentence += f"; changed with it: {', '.join(change.versions)}"
    if change.doubt:
        sentence += f"; most times since cannot be trusted: {change.doubt}"
    return sentence


def _failure_sentence(point: Point) -> str:
    run, line = point.run, point.measurement
    where = f"the run {run.folder.name}" if run.commit is None else commit_text(run.commit)
    reason = f": {printable(line.reason, _REASON)}" if line.reason else ""
    return f"{line.op} {line.impl} at {line.label} failed last, at {where} ({_date(run.time)}): {line.status}{reason}"


def _commit(group: CommitTimes) -> str:
    where = f", {group.branch}" if group.branch else ""
    if group.commit is None:
        return f"the run {Path(group.points[0].run.folder).name} ({_date(group.time)})"
    return f"{commit_text(group.commit)} ({_date(group.time)}{where})"


def commit_text(commit: str | None) -> str:
    """The first characters of a commit, marked where files differed from it."""
    if commit is None:
        return "–"
    name, plus, _ = commit.partition("+")
    return printable(name[:_COMMIT]) + plus


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %" if fraction < 1 else f"{100 * fraction:.0f} %"


def _date(seconds: float, *, minutes: bool = False) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M" if minutes else "%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _say(sentence: str, out: Console, style: str = "") -> None:
    out.print(Text(printable(sentence), style=style), soft_wrap=not out.is_terminal)
