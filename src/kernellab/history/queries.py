"""Questions to the index: which runs there are, and the times of each implementation from run to run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernellab.history.digest import DIRTY, Measurement
from kernellab.history.index import Index
from kernellab.record.statuses import RIGHT

_MEASUREMENT = ", ".join(f'm."{field.name}"' for field in dataclasses.fields(Measurement))


@dataclass(frozen=True)
class Filters:
    """Which measurements are asked for; None: all."""

    op: str | None = None
    impls: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    machine: str | None = None  # a part of the name, in any case
    since: float | None = None  # seconds since 1970


@dataclass(frozen=True)
class IndexedRun:
    """A run as the index knows it."""

    folder: Path
    state: str
    time: float
    problem: str | None
    command: str
    commit: str | None
    committed: float | None
    branch: str | None
    machine: str | None

    @property
    def position(self) -> float:
        """Where the run belongs in a history of commits: at the time of its commit, or its own where that is unknown
        or where files differed from the commit."""
        clean = self.committed is not None and self.commit is not None and not self.commit.endswith(DIRTY)
        return self.committed if clean and self.committed is not None else self.time


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
    query = f"SELECT {_RUN} FROM runs r ORDER BY r.time, r.folder"
    return [_run(index, row) for row in index.connection.execute(query)]


_RUN_COLUMNS = ("folder", "state", "time", "problem", "command", "commit", "committed", "branch", "machine")
_RUN = ", ".join(f'r."{name}"' for name in _RUN_COLUMNS)


def _run(index: Index, row: tuple[object, ...]) -> IndexedRun:
    folder, *others = row
    assert isinstance(folder, bytes)
    return IndexedRun(index.runs / os.fsdecode(folder), *others)  # type: ignore[arg-type]


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
    """The ops of a run, and how many implementations have each status, all cases together."""

    ops: tuple[str, ...] = ()
    statuses: Mapping[str, int] = dataclasses.field(default_factory=dict)


def outcomes(index: Index) -> dict[Path, Outcomes]:
    """How every run fared, by its folder."""
    query = (
        "SELECT r.folder, m.op, m.status, COUNT(DISTINCT m.impl) FROM measurements m JOIN runs r ON r.id = m.run"
        " GROUP BY r.id, m.op, m.status ORDER BY r.id, m.op, m.status"
    )
    ops: dict[bytes, dict[str, None]] = {}
    statuses: dict[bytes, dict[str, int]] = {}
    for folder, op, status, impls in index.connection.execute(query):
        ops.setdefault(folder, {})[op] = None
        of_run = statuses.setdefault(folder, {})
        of_run[status] = of_run.get(status, 0) + impls
    return {index.runs / os.fsdecode(folder): Outcomes(tuple(ops[folder]), statuses[folder]) for folder in ops}


def points(index: Index, filters: Filters, *, timed: bool = True) -> Iterator[Point]:
    """Measurements in the order of time. `timed`: only times of implementations that are right."""
    conditions, values = ["r.machine IS NOT NULL"], []
    if timed:
        conditions.append("m.median_us IS NOT NULL")
        conditions.append(f"m.status IN ({', '.join('?' * len(RIGHT))})")
        values += sorted(RIGHT)
    if filters.op is not None:
        conditions.append("m.op = ?")
        values.append(filters.op)
    for column, names in (("impl", filters.impls), ("dtype", filters.dtypes)):
        if names:
            conditions.append(f"({' OR '.join([f'm.{column} GLOB ?'] * len(names))})")
            values += names
    if filters.machine is not None:
        conditions.append("instr(lower(r.machine), lower(?)) > 0")
        values.append(filters.machine)
    parameters: list[str | float] = [*values]
    if filters.since is not None:
        conditions.append("r.time >= ?")
        parameters.append(filters.since)
    query = (
        f"SELECT {_RUN}, {_MEASUREMENT} FROM measurements m JOIN runs r ON r.id = m.run"
        f" WHERE {' AND '.join(conditions)} ORDER BY r.time, r.folder, m.rowid"
    )
    split = len(_RUN_COLUMNS)
    for row in index.connection.execute(query, parameters):
        yield Point(_run(index, row[:split]), Measurement(*row[split:]))


def series(index: Index, filters: Filters) -> list[Series]:
    """The history of each implementation, case, machine, pass and timer. Samples that several runs hold count once."""
    grouped: dict[tuple[object, ...], dict[str, Point]] = {}
    for point in points(index, filters):
        line = point.measurement
        key = (line.op, line.case, line.impl, point.run.machine, line.pass_name, line.timer, line.cache)
        grouped.setdefault(key, {}).setdefault(line.samples or "", point)
    return [_series(list(distinct.values())) for _, distinct in sorted(grouped.items(), key=lambda item: str(item[0]))]


def _series(found: list[Point]) -> Series:
    found.sort(key=lambda point: (point.run.position, point.run.time))
    line, run = found[0].measurement, found[0].run
    return Series(
        op=line.op,
        impl=line.impl,
        label=line.label,
        machine=run.machine or "",
        pass_name=line.pass_name or "",
        timer=line.timer,
        cache=line.cache,
        points=tuple(found),
    )
