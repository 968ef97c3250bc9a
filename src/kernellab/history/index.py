"""The index: a SQLite database that answers questions about a thousand runs without reading their records.

It is a file in the cache folder, one for each folder of runs, so that nothing is added to a folder that may be shared,
read-only or under version control. Each machine has its own: SQLite cannot share a file between machines. Several
processes may write to it at once. What is lost with a killed process is read from the runs again by the next `refresh`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kernellab.base.errors import UserError
from kernellab.base.file_lock import locked
from kernellab.base.paths import cache_dir, cache_path, file_name
from kernellab.history.digest import RUNNING, UNFINISHED, Measurement, RunDigest, digest, digest_all, stamp, state_of
from kernellab.record.schema import SCHEMA
from kernellab.record.verdict import RULES

_VERSION = 1  # of the tables below and of what is put into them
_DEPTH = 3  # folders of runs may lie in folders of their own
_BATCH = 50  # runs per transaction: another process waits for one at most
_WAIT_S = 30.0
_SIDECARS = ("-wal", "-shm")
_TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, folder BLOB UNIQUE NOT NULL, stamp TEXT NOT NULL, state TEXT NOT NULL, time REAL NOT NULL,
    problem TEXT, command TEXT NOT NULL, "commit" TEXT, committed REAL, branch TEXT, machine TEXT,
    versions TEXT NOT NULL
);
CREATE TABLE measurements (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, op TEXT NOT NULL, impl TEXT NOT NULL,
    "case" TEXT NOT NULL, label TEXT NOT NULL, dtype TEXT NOT NULL, device TEXT NOT NULL, status TEXT NOT NULL,
    reason TEXT, pass_name TEXT, timer TEXT, cache TEXT, median_us REAL, low_us REAL, high_us REAL,
    rounds INTEGER NOT NULL, trust TEXT, is_main INTEGER NOT NULL, samples TEXT
);
CREATE INDEX by_run ON measurements (run);
CREATE INDEX by_op ON measurements (op, impl);
CREATE INDEX by_time ON runs (time);
"""
_COLUMNS = [f.name for f in dataclasses.fields(Measurement)]


class Refreshed(NamedTuple):
    """How many runs a refresh read, and how many had vanished since the last one."""

    read: int
    vanished: int


class Index:
    """The index of the runs below a folder. A context manager: it is closed at the end."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs.resolve()
        self.file = index_file(runs)
        self.connection = self._open()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def refresh(self) -> Refreshed:
        """Read the runs that are new or have changed, and drop those that have vanished."""
        try:
            return self._refresh()
        except sqlite3.OperationalError as error:
            raise _unusable(self.file, error) from None
        except sqlite3.DatabaseError:
            self._replace_damaged()
            return self._refresh()

    def add(self, folder: Path) -> None:
        """Read one run. A folder elsewhere than below the folder of all runs is left out."""
        folder = folder.resolve()
        mark = stamp(folder)
        if mark is not None and folder.is_relative_to(self.runs):
            self._store({os.fsencode(folder.relative_to(self.runs)): (mark, digest(folder))})

    def rebuild(self) -> Refreshed:
        """Empty the index and read every run."""
        try:
            with _transaction(self.connection) as connection:  # the file stays: another process may be using it
                connection.execute("DELETE FROM runs")
        except sqlite3.OperationalError as error:
            raise _unusable(self.file, error) from None
        except sqlite3.DatabaseError:
            self._replace_damaged()
        return self.refresh()

    @property
    def _lock(self) -> Path:
        return self.file.with_suffix(".lock")

    def _open(self) -> sqlite3.Connection:
        try:
            with locked(self._lock):  # two processes must not create the tables, or replace a damaged file, at once
                try:
                    return _connect(self.file, self.runs)
                except sqlite3.OperationalError as error:
                    raise _unusable(self.file, error) from None
                except sqlite3.DatabaseError:
                    _remove(self.file)
                    return _connect(self.file, self.runs)
        except OSError as error:
            raise _unusable(self.file, error) from None

    def _replace_damaged(self) -> None:
        self.connection.close()
        with locked(self._lock):
            if not _is_sound(self.file, self.runs):  # another process may have replaced it already
                _remove(self.file)
            self.connection = _connect(self.file, self.runs)

    def _refresh(self) -> Refreshed:
        present = dict(_scan(self.runs))
        query = "SELECT folder, stamp, state FROM runs"
        known = {folder: (mark, state) for folder, mark, state in self.connection.execute(query)}
        vanished = known.keys() - present.keys()
        if vanished:
            with _transaction(self.connection) as connection:
                connection.executemany("DELETE FROM runs WHERE folder = ?", [(folder,) for folder in vanished])
        changed = [folder for folder, mark in present.items() if known.get(folder, ("",))[0] != mark]
        digests = digest_all([self._path(folder) for folder in changed])
        for start in range(0, len(changed), _BATCH):
            batch = changed[start : start + _BATCH]
            self._store({folder: (present[folder], next(digests)) for folder in batch})
        self._update_states({folder: state for folder, (_, state) in known.items() if folder not in set(changed)})
        return Refreshed(len(changed), len(vanished))

    def _update_states(self, states: Mapping[bytes, str]) -> None:
        """Whether an unfinished run is still being written shows in nothing but the lock of its journal."""
        for folder, state in states.items():
            if state in (RUNNING, UNFINISHED) and (now := state_of(self._path(folder), complete=False)) != state:
                with _transaction(self.connection) as connection:
                    connection.execute("UPDATE runs SET state = ? WHERE folder = ?", (now, folder))

    def _store(self, digests: Mapping[bytes, tuple[str, RunDigest]]) -> None:
        with _transaction(self.connection) as connection:
            for folder, (mark, run) in digests.items():
                connection.execute("DELETE FROM runs WHERE folder = ?", (folder,))
                row = connection.execute(
                    'INSERT INTO runs (folder, stamp, state, time, problem, command, "commit", committed, branch,'
                    " machine, versions) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (folder, mark, run.state, run.time, run.problem, run.command, run.commit, run.committed,
                     run.branch, run.machine, json.dumps(run.versions)),
                )  # fmt: skip
                names = ", ".join(f'"{name}"' for name in _COLUMNS)
                connection.executemany(
                    f"INSERT INTO measurements (run, {names}) VALUES (?{', ?' * len(_COLUMNS)})",
                    [(row.lastrowid, *(getattr(line, name) for name in _COLUMNS)) for line in run.measurements],
                )

    def _path(self, folder: bytes) -> Path:
        return self.runs / os.fsdecode(folder)


def index_file(runs: Path) -> Path:
    """The file of the index of a folder of runs."""
    path = runs.resolve()
    key = hashlib.sha256(os.fsencode(path) + platform.node().encode()).hexdigest()[:12]
    return cache_dir("history") / f"{file_name(path.name)[:40]}-{key}.sqlite"


def index_files() -> list[Path]:
    """Every index in the cache."""
    return sorted(cache_path("history").glob("*.sqlite"))


def runs_of(file: Path) -> Path | None:
    """The folder of runs that an index is of; None if it cannot be read."""
    try:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            return Path(os.fsdecode(connection.execute("SELECT runs FROM origin").fetchone()[0]))
    except (sqlite3.Error, TypeError):
        return None


def sidecars(file: Path) -> list[Path]:
    """The files of an index: the database, what SQLite keeps beside it, and its lock."""
    return [file, *(file.with_name(file.name + end) for end in _SIDECARS), file.with_suffix(".lock")]


def add_run(folder: Path, runs: Path) -> None:
    """Add a run that has just ended to the index. Never fails: the next refresh reads what is missing."""
    with contextlib.suppress(sqlite3.Error, OSError, UserError), Index(runs) as index:
        index.add(folder)


def _unusable(file: Path, error: Exception) -> UserError:
    return UserError(
        f"the index of runs, {file}, cannot be used: {error}. Set KERNELLAB_CACHE to another folder, or remove the"
        " file: it is made again from the runs"
    )


def _is_sound(file: Path, runs: Path) -> bool:
    try:
        with contextlib.closing(_connect(file, runs)) as connection:
            return bool(connection.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def _version() -> int:
    """Of everything that decides what the index holds: it is made anew when one of them changes."""
    return (_VERSION * 1000 + SCHEMA) * 1000 + RULES


def _connect(file: Path, runs: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _version():
            with _transaction(connection):
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    connection.execute(f'DROP TABLE "{name}"')
                for statement in filter(str.strip, _TABLES.split(";")):
                    connection.execute(statement)
                connection.execute("CREATE TABLE origin (runs BLOB)")
                connection.execute("INSERT INTO origin VALUES (?)", (os.fsencode(runs),))
                connection.execute(f"PRAGMA user_version = {_version()}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _remove(file: Path) -> None:
    for end in ("", *_SIDECARS):
        file.with_name(file.name + end).unlink(missing_ok=True)


def _scan(runs: Path, prefix: bytes = b"", depth: int = _DEPTH) -> Iterator[tuple[bytes, str]]:
    """Every run below a folder with its stamp. Links are not followed: they may lead anywhere."""
    with contextlib.suppress(OSError), os.scandir(runs) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                name = prefix + os.fsencode(entry.name)
                mark = stamp(Path(entry.path))
                if mark is not None:
                    yield name, mark
                elif depth > 1:
                    yield from _scan(Path(entry.path), name + b"/", depth - 1)
