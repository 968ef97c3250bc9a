"""What the index keeps of a run: where and when it was made, and a line for each series of each implementation."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.text import printable
from kernellab.declaration.case import Case
from kernellab.record.derived import DerivedResult
from kernellab.record.journal import JOURNAL, RUN, is_being_written
from kernellab.record.reading import load
from kernellab.record.schema import Record
from kernellab.record.timed_series import time_of
from kernellab.record.verdict import derive

COMPLETE, RUNNING, UNFINISHED, UNREADABLE = "complete", "running", "unfinished", "unreadable"
DIRTY = "+changes"  # what a commit's name ends with where files differed from it
_LONGEST = 500  # characters of a problem
_MANY = 50  # runs, which take longer to read than processes take to start
_MOST_PROCESSES = 8


@dataclass(frozen=True)
class Measurement:
    """One series of an implementation at a case; without a time where it was not timed."""

    op: str
    impl: str
    case: str  # a key that is the same in every process
    label: str  # the case as people read it
    dtype: str
    device: str
    status: str
    reason: str | None
    pass_name: str | None = None
    timer: str | None = None
    cache: str | None = None
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    rounds: int = 0
    trust: str | None = None
    is_main: bool = False  # the series by which the run compared the implementations
    samples: str | None = None  # a hash: runs that were copied or merged hold the same samples twice


@dataclass(frozen=True)
class RunDigest:
    """A run in short. `problem` says why a run is unreadable."""

    state: str
    time: float  # when it began, in seconds since 1970
    problem: str | None = None
    command: str = ""
    commit: str | None = None
    committed: float | None = None
    branch: str | None = None
    machine: str | None = None  # the class of machines whose times may be compared
    versions: dict[str, str] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()


def stamp(folder: Path) -> str | None:
    """Differs whenever the run's record may have changed; None if the folder holds no run."""
    for name in (JOURNAL, RUN):
        try:
            status = os.stat(folder / name)  # noqa: PTH116 - a thousand of them: twice as fast as Path.stat
        except OSError:
            continue
        return f"{name} {status.st_mtime_ns} {status.st_size}"
    return None


def state_of(folder: Path, *, complete: bool) -> str:
    if complete:
        return COMPLETE
    return RUNNING if is_being_written(folder) else UNFINISHED


def digest(folder: Path) -> RunDigest:
    """The digest of a run. A record that cannot be read or judged gives one that says why."""
    try:
        return _digest(load(folder), folder)
    except UserError as error:
        problem = error.message
    except Exception as error:  # a stranger's record: whatever it breaks, the other runs must be listed
        problem = f"{folder} cannot be judged: {type(error).__name__}: {error}"
    return RunDigest(UNREADABLE, _modified(folder), problem=printable(problem, _LONGEST))


def digest_all(folders: Sequence[Path]) -> Iterator[RunDigest]:
    """The digest of each run, in order. Many are read by several processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    # Only a process with a single thread can be forked safely; a new one would import the user's script again.
    if len(folders) < _MANY or cores == 1 or threading.active_count() > 1:
        yield from map(digest, folders)
        return
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(min(cores, _MOST_PROCESSES), _ignore_interrupts) as pool:
        yield from pool.imap(digest, folders, chunksize=8)


def _ignore_interrupts() -> None:
    """Ctrl-C also reaches the children, which their parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _digest(record: Record, folder: Path) -> RunDigest:
    environment, machine = record["environment"], record["machine"]
    measurements = tuple(line for result in derive(record)["results"] for line in _measurements(result))
    name = machine.get("class") or machine.get("name")
    return RunDigest(
        state=state_of(folder, complete=record["complete"]),
        time=seconds(record.get("began")) or _modified(folder),
        command=" ".join(record["command"])[:_LONGEST],
        commit=environment.get("commit"),
        committed=seconds(environment.get("committed")),
        branch=environment.get("branch"),
        machine=name,
        versions={package: version for package, version in environment.get("packages", {}).items() if version},
        measurements=measurements,
    )


def _measurements(result: DerivedResult) -> Iterator[Measurement]:
    case, derived = Case.from_json(result["case"]), result["derived"]
    untimed = Measurement(
        op=result["op"],
        impl=result["impl"],
        case=case.key,
        label=case.label,
        dtype=case.dtype,
        device=case.device,
        status=derived["status"],
        reason=derived["reason"],
    )
    timed = [(entry, time_of(entry)) for entry in result["times"] if entry["samples_us"]]
    for entry, time in timed:
        verdict = derived["passes"][entry["pass"]]
        is_main = verdict["time"] == time
        trust = verdict["trust"] if is_main else None
        yield dataclasses.replace(
            untimed,
            pass_name=entry["pass"],
            timer=entry["timer"],
            cache=entry["cache"],
            median_us=time["median_us"],
            low_us=time["low_us"],
            high_us=time["high_us"],
            rounds=time["rounds"],
            trust=trust["verdict"] if trust else None,
            is_main=is_main,
            samples=hashlib.blake2b(array("d", entry["samples_us"]).tobytes(), digest_size=8).hexdigest(),
        )
    if not timed:
        yield untimed


def seconds(text: str | None) -> float | None:
    """A time of a record in seconds since 1970; None if it has none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError, OSError):
        return None


def _modified(folder: Path) -> float:
    try:
        return (folder / (JOURNAL if (folder / JOURNAL).exists() else RUN)).stat().st_mtime
    except OSError:
        return 0.0
