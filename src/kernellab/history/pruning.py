"""Removes old runs, and what the cache holds for nobody: chosen first, shown, and removed only on request.

A run that is being written stays, and so does one whose folder holds files that kernellab did not write.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.base.file_lock import try_lock
from kernellab.base.paths import cache_path
from kernellab.history.digest import RUNNING, stamp
from kernellab.history.index import Index, index_files, runs_of, sidecars
from kernellab.history.queries import IndexedRun, all_runs, ops_of_runs
from kernellab.record.journal import JOURNAL

# What kernellab writes into a run's folder; docs/record.md describes it.
_OWN_FILES = (
    "journal.jsonl", "run.json", ".run.json.*", "artifacts", "profile.json", "counters.json", "counters.csv",
    "curves-*", "scaling-*", "report*.html", "verify-*",
)  # fmt: skip
# Folders of the cache that hold compiled code. Measured ceilings, tuned tables and failed trials are kept.
_COMPILED = ("bytecode", "cpp", "extensions", "inductor", "launcher", "nvrtc")


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
    kept = "it is being written" if run.state == RUNNING else None
    foreign = [] if kept else _foreign_files(run.folder)
    if foreign:
        kept = f"its folder also holds {', '.join(foreign[:3])}{' …' if len(foreign) > 3 else ''}"
    return Removal((run.folder,), run.time, _bytes(run.folder), kept)


def _foreign_files(folder: Path) -> list[str]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except OSError:
        return ["files that cannot be listed"]
    return [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in _OWN_FILES)]


def unused_cache(before: float) -> list[Removal]:
    """Compiled code and indices that were not used since a time, and indices of folders of runs that are gone."""
    found = []
    for name in _COMPILED:
        for paths in _entries(cache_path(name)):
            used = max((_last_use(path) for path in paths), default=0.0)
            if used < before:
                found.append(Removal(paths, used, sum(map(_bytes, paths))))
    for file in index_files():
        runs = runs_of(file)
        paths = tuple(path for path in sidecars(file) if path.exists())
        used = max(map(_last_use, paths), default=0.0)
        if runs is None or not runs.is_dir() or used < before:
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
        problem = _remove(folder)
    for parent in folder.parents:
        if parent == index.runs:
            break
        with contextlib.suppress(OSError):  # it holds further runs
            parent.rmdir()
    return problem


def remove_entry(removal: Removal) -> str | None:
    """Remove an entry of the cache; returns why it stays if it does."""
    problems = [problem for path in removal.paths if (problem := _remove(path))]
    return problems[0] if problems else None


def _remove(path: Path) -> str | None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # follows no links
        else:
            path.unlink(missing_ok=True)
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
