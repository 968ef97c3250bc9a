"""Questions to the index: which runs there are, and the times of each implementation from run to run."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernellab.history.digest import DIRTY, RUNNING, Measurement
from kernellab.history.index import Index
from kernellab.record.statuses import FAILED, RIGHT

_MEASUREMENT = ", ".join(f'm."{field.name}"' for field in dataclasses.fields(Measurement))
_RUN = 'id, folder, versions, state, time, problem, command, "commit", committed, branch, machine'


@dataclass(frozen=True)
class Filters:
    """Which measurements are asked for; None: all."""

    op: str | None = None
    impls: tuple[str, ...] = ()  # names or shell patterns
    dtypes: tuple[str, ...] = ()
    machine: str | None = None  # a part of the name, in any case
    branch: str | None = None
    since: float | None = None  # seconds since 1970
    main: bool = False  # only the series by which runs compared their implementations


@dataclass(frozen=True)
class IndexedRun:
    """A run as the index knows it."""

    folder: Path
    versions: Mapping[str, str]  # of packages
    state: str
    time: float
    problem: str | None
    command: str
    commit: str | None
    committed: float | None
    branch: str | None
    machine: str | None

    @property
    def is_clean(self) -> bool:
        """Whether the run is known to be of a commit as it is."""
        return self.commit is not None and not self.commit.endswith(DIRTY)

    @property
    def position(self) -> float:
        """Where the run belongs in a history of commits: at the time of its commit, or its own where that is unknown
        or where files differed from the commit."""
        return self.committed if self.is_clean and self.committed is not None else self.time


@dataclass(frozen=True)
class Point:
    """One measurement, and the run that it is from."""

    run: IndexedRun
    measurement: Measurement


@dataclass(frozen=True)
class Series:
    """The times of one implementation at one case on one class of machines, in the order of commits."""

    op: str
    impl: str
    case: str
    label: str
    machine: str
    pass_name: str
    timer: str | None
    cache: str | None
    points: tuple[Point, ...]

    @property
    def latest(self) -> Point:
        """The point that was measured last."""
        return max(self.points, key=lambda point: point.run.time)


def all_runs(index: Index) -> list[IndexedRun]:
    """Every run, the oldest first."""
    return list(_runs(index).values())


def _runs(index: Index) -> dict[int, IndexedRun]:
    rows = index.connection.execute(f"SELECT {_RUN} FROM runs ORDER BY time, folder")
    return {
        number: IndexedRun(index.runs / os.fsdecode(folder), json.loads(versions), *others)
        for number, folder, versions, *others in rows
    }


def ops_of_runs(index: Index) -> dict[Path, set[str]]:
    """The ops of each run that has any."""
    ops: dict[Path, set[str]] = {}
    for folder, op in index.connection.execute(
        "SELECT DISTINCT r.folder, m.op FROM measurements m JOIN runs r ON r.id = m.run"
    ):
        ops.setdefault(index.runs / os.fsdecode(folder), set()).add(op)
    return ops


def timed_in(index: Index, run: IndexedRun) -> set[tuple[str, str, str]]:
    """The op, implementation and case of everything that was timed in a run."""
    query = (
        'SELECT m.op, m.impl, m."case" FROM measurements m JOIN runs r ON r.id = m.run'
        " WHERE r.folder = ? AND m.median_us IS NOT NULL"
    )
    folder = os.fsencode(run.folder.relative_to(index.runs))
    return {(op, impl, case) for op, impl, case in index.connection.execute(query, (folder,))}


@dataclass(frozen=True)
class Outcomes:
    """The ops of a run, and how many results have each status."""

    ops: tuple[str, ...] = ()
    statuses: Mapping[str, int] = dataclasses.field(default_factory=dict)


def outcomes(index: Index) -> dict[Path, Outcomes]:
    """How every run fared, by its folder."""
    query = (
        """SELECT r.folder, m.op, m.status, COUNT(DISTINCT m.impl || char(10) || m."case")"""
        " FROM measurements m JOIN runs r ON r.id = m.run"
        " GROUP BY r.id, m.op, m.status ORDER BY r.id, m.op, m.status"
    )
    ops: dict[bytes, dict[str, None]] = {}
    statuses: dict[bytes, dict[str, int]] = {}
    for folder, op, status, results in index.connection.execute(query):
        ops.setdefault(folder, {})[op] = None
        of_run = statuses.setdefault(folder, {})
        of_run[status] = of_run.get(status, 0) + results
    return {index.runs / os.fsdecode(folder): Outcomes(tuple(ops[folder]), statuses[folder]) for folder in ops}


def points(index: Index, filters: Filters, *, timed: bool = True) -> Iterator[Point]:
    """Measurements in the order of time. `timed`: only times of implementations that are right, in runs that ended."""
    runs = _runs(index)
    conditions, values = _conditions(filters)
    if timed:
        conditions.append(f"m.median_us IS NOT NULL AND m.status IN ({', '.join('?' * len(RIGHT))})")
        conditions.append("r.state != ?")  # more samples are to come
        values += [*sorted(RIGHT), RUNNING]
    query = (
        f"SELECT m.run, {_MEASUREMENT} FROM measurements m JOIN runs r ON r.id = m.run"
        f" WHERE {' AND '.join(conditions) or '1'} ORDER BY r.time, r.folder, m.rowid"
    )
    for number, *fields in index.connection.execute(query, values):
        if number in runs:  # else another process has added it since
            yield Point(runs[number], Measurement(*fields))


def _conditions(filters: Filters) -> tuple[list[str], list[str | float]]:
    conditions: list[str] = []
    values: list[str | float] = []
    for condition, value in (
        ("m.op = ?", filters.op),
        ("instr(lower(r.machine), lower(?)) > 0", filters.machine),
        ("r.branch = ?", filters.branch),
        ("r.time >= ?", filters.since),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    for column, names in (("impl", filters.impls), ("dtype", filters.dtypes)):
        if names:
            conditions.append(f"({' OR '.join([f'm.{column} GLOB ?'] * len(names))})")
            values += names
    if filters.main:
        conditions.append("m.is_main")
    return conditions, values


def failures(index: Index, filters: Filters) -> list[Point]:
    """What failed when it was examined last: each implementation of an op at a case on a class of machines."""
    latest: dict[tuple[object, ...], Point] = {}
    for point in points(index, dataclasses.replace(filters, main=False), timed=False):
        line = point.measurement
        if line.status != "skipped":
            latest[line.op, point.run.machine, line.case, line.impl] = point
    return [point for _, point in sorted(latest.items(), key=str) if point.measurement.status in FAILED]


def series(index: Index, filters: Filters) -> list[Series]:
    """The history of each implementation, case, machine, pass and timer. Samples that several runs hold count once."""
    grouped: dict[tuple[object, ...], dict[str, Point]] = {}
    for point in points(index, filters):
        line = point.measurement
        key = (line.op, point.run.machine, line.case, line.pass_name, line.timer, line.cache, line.impl)
        grouped.setdefault(key, {}).setdefault(line.samples or "", point)
    return [_series(list(distinct.values())) for _, distinct in sorted(grouped.items(), key=lambda item: str(item[0]))]


def _series(found: list[Point]) -> Series:
    found.sort(key=lambda point: (point.run.position, point.run.time))
    line, run = found[0].measurement, found[0].run
    return Series(
        op=line.op,
        impl=line.impl,
        case=line.case,
        label=line.label,
        machine=run.machine or "",
        pass_name=line.pass_name or "",
        timer=line.timer,
        cache=line.cache,
        points=tuple(found),
    )
