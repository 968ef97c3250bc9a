"""Removes old runs, and what the cache holds for nobody: chosen first, shown, and removed only on request.

Only what kernellab wrote is removed, file by file. A run that is being written stays, one that cannot be read, and one
whose folder holds anything else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.file_lock import try_lock
from kernellab.base.paths import cache_path
from kernellab.history.cache_files import COMPILED, is_compiled
from kernellab.history.digest import RUNNING, stamp
from kernellab.history.index import Index, index_files, runs_of, sidecars
from kernellab.history.queries import IndexedRun, all_runs, ops_of_runs
from kernellab.history.run_files import RunFiles, files_of
from kernellab.record.journal import JOURNAL


@dataclass(frozen=True)
class Removal:
    """A run, or an entry of the cache, that may go. `kept`: why it stays all the same."""

    paths: tuple[Path, ...]
    time: float  # when the run began, or the entry was used last
    bytes: int
    kept: str | None = None


def old_runs(
    index: Index, *, before: float | None, keep: int = 0, branch: str | None = None, machine: str | None = None
) -> list[Removal]:
    """The runs that began before a time, without the last `keep` of each set of ops on each class of machines."""
    ops = ops_of_runs(index)
    newest: dict[tuple[object, ...], int] = {}
    chosen = []
    for run in reversed(all_runs(index)):
        group = (run.machine, frozenset(ops.get(run.folder, ())))
        newest[group] = newest.get(group, 0) + 1
        if newest[group] <= keep or (before is not None and run.time >= before):
            continue
        if branch in (None, run.branch) and (machine or "").lower() in (run.machine or "").lower():
            chosen.append(_removal(run))
    return chosen[::-1]


def _removal(run: IndexedRun) -> Removal:
    kept = "it is being written" if run.state == RUNNING else _why_kept(run.folder)[0]
    return Removal((run.folder,), run.time, _bytes(run.folder), kept)


def _why_kept(folder: Path) -> tuple[str | None, RunFiles]:
    """Why a run's folder stays, if it does, and its files."""
    try:
        files = files_of(folder)
    except UserError:
        return "its record cannot be read", RunFiles()
    foreign = files.foreign
    more = " …" if len(foreign) > 3 else ""
    return (f"its folder also holds {', '.join(foreign[:3])}{more}" if foreign else None), files


def unused_cache(before: float) -> list[Removal]:
    """Compiled code and indices that were not used since a time, and indices of folders of runs that are gone."""
    found = []
    for name in COMPILED:
        for paths in _entries(cache_path(name)):
            if not all(is_compiled(name, path) for path in paths):
                continue  # somebody else's
            used = max((_last_use(path) for path in paths), default=0.0)
            if used < before:
                found.append(Removal(paths, used, sum(map(_bytes, paths))))
    for file in index_files():
        runs = runs_of(file)
        paths = tuple(path for path in sidecars(file) if path.exists())
        used = max(map(_last_use, paths), default=0.0)
        if runs is not None and (not runs.is_dir() or used < before):
            found.append(Removal(paths, used, sum(map(_bytes, paths))))
    return found


def remove_run(removal: Removal, index: Index) -> str | None:
    """Remove a run's folder; returns why it stays if it does."""
    (folder,) = removal.paths
    if removal.kept:
        return removal.kept
    if folder.is_symlink() or stamp(folder) is None or not folder.resolve().is_relative_to(index.runs):
        return "it has changed"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            journal = stack.enter_context((folder / JOURNAL).open("rb"))
            if not try_lock(journal):
                return "it is being written"
        kept, files = _why_kept(folder)  # somebody may have added a file since the run was chosen
        if kept:
            return kept
        problem = _remove(files.files, files.folders)
    for parent in folder.parents:
        if parent == index.runs:
            break
        with contextlib.suppress(OSError):  # it holds further runs
            parent.rmdir()
    return problem


def remove_entry(removal: Removal) -> str | None:
    """Remove an entry of the cache; returns why it stays if it does."""
    problems: list[str | None] = []
    for path in removal.paths:
        if not is_compiled(path.parent.name, path) and path.parent != cache_path("history"):
            problems.append("it has changed")
        elif path.is_dir() and not path.is_symlink():
            folders = [Path(folder) for folder, _, _ in os.walk(path, topdown=False)]
            problems.append(_remove([file for folder in folders for file in _files(folder)], folders))
        else:
            problems.append(_remove([path], []))
    return next(filter(None, problems), None)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_symlink() or not path.is_dir()]


def _remove(files: Sequence[Path], folders: Sequence[Path]) -> str | None:
    """Remove files, then the folders that held them, which must be empty; returns why that failed."""
    try:
        for file in files:
            file.unlink(missing_ok=True)
        for folder in folders:
            folder.rmdir()
    except OSError as error:
        return f"it cannot be removed: {error.strerror}"
    return None


def _entries(folder: Path) -> Iterator[tuple[Path, ...]]:
    """What belongs together in a folder of the cache: a folder, or the files of one name."""
    together: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            together.setdefault(path.name if path.is_dir() else path.name.partition(".")[0], []).append(path)
    yield from map(tuple, together.values())


def _walk(path: Path) -> Iterator[os.stat_result]:
    """The status of a file, or of every file in a folder."""
    with contextlib.suppress(OSError):
        yield path.lstat()
    if path.is_dir() and not path.is_symlink():
        for folder, _, files in os.walk(path):
            for name in files:
                with contextlib.suppress(OSError):
                    yield (Path(folder) / name).lstat()


def _bytes(path: Path) -> int:
    return sum(status.st_size for status in _walk(path))


def _last_use(path: Path) -> float:
    return max((max(status.st_mtime, status.st_atime) for status in _walk(path)), default=0.0)


def total_bytes(removals: Sequence[Removal]) -> int:
    return sum(removal.bytes for removal in removals if not removal.kept)
