"""The journal of a run: events appended and flushed as they happen, and the record they fold into.

`journal.jsonl` is the source of truth. `run.json` is the same folded into results, replaced as a whole after each
group. Verdicts are not stored: `verdict` computes them. docs/record.md describes both files.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.file_lock import is_locked, try_lock
from kernellab.base.json import JsonObject
from kernellab.base.message import UnknownMessage
from kernellab.base.paths import replace_file
from kernellab.machine.environment import environment
from kernellab.record.event import Event
from kernellab.record.run_events import RunStarted
from kernellab.record.schema import SCHEMA, Record

JOURNAL, RUN = "journal.jsonl", "run.json"
_LOCK_WAIT_S = 1.0  # whoever only looks whether a run is being written holds the lock for a moment


class Journal:
    """Appends events to a run's journal and keeps the record they fold into.

    It holds the lock of the journal until it is closed: one process at a time writes a run, and others can see that
    the run is still being written.
    """

    def __init__(self, folder: Path, events: Iterable[Event] = (), *, own_folder: bool = False) -> None:
        """`own_folder`: the folder was made for this run, and is removed with it."""
        self.folder = folder
        self._created = [path for path in (folder / "artifacts", folder) if own_folder or not path.exists()]
        self.record = fold(events)
        self._began = time.monotonic()
        try:
            (folder / "artifacts").mkdir(parents=True, exist_ok=True)
            self._file = (folder / JOURNAL).open("ab")
            if not try_lock(self._file, _LOCK_WAIT_S):
                self._file.close()
                raise UserError(
                    f"{folder} is being written by another klab: wait until it ends, or name another folder"
                )
            _cut_torn_line(folder / JOURNAL)
        except OSError as error:
            raise UserError(
                f"cannot write the record to {folder}: {error.strerror}. --out DIR names another place"
            ) from None
        self.is_new = self._file.tell() == 0

    def write(self, event: Event) -> None:
        """Append an event and fold it into the record. Only events declared as stored are written."""
        if not event.stored:
            raise TypeError(f"event `{event.message_name}` is declared transient: the journal does not keep it")
        self._append(event.to_json())
        event.fold(self.record)

    def copy(self, entry: JsonObject) -> None:
        """Append a line of another journal unchanged. An event unknown to this version adds nothing to the record."""
        self._append({key: value for key, value in entry.items() if key != "t"})
        with contextlib.suppress(UnknownMessage):
            Event.parse(entry).fold(self.record)

    def _append(self, entry: JsonObject) -> None:
        name = entry.pop("event")
        line = {"event": name, "t": round(time.monotonic() - self._began, 3), **entry}
        try:
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise UserError(_cannot_write(self.folder, error)) from None

    def save(self) -> None:
        """Replace run.json by what has been observed so far."""
        try:
            os.fsync(self._file.fileno())
            replace_file(self.folder / RUN, json.dumps(self.record, indent=1, allow_nan=False).encode())
        except OSError as error:
            raise UserError(_cannot_write(self.folder, error)) from None

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Delete a run that never began; files that were there before stay."""
        self.close()
        if not self.is_new:
            return
        (self.folder / JOURNAL).unlink(missing_ok=True)
        for log in (self.folder / "artifacts").glob("worker-*.log"):
            log.unlink()
        for folder in self._created:
            with contextlib.suppress(OSError):
                folder.rmdir()


def begin(
    folder: Path, settings: JsonObject, seed: int, command: Iterable[str], *, own_folder: bool = False
) -> Journal:
    """A new journal with its head: the command and its settings, where and when it runs."""
    journal = Journal(folder, own_folder=own_folder)
    if not journal.is_new:  # since this process looked, another has made a run there
        journal.close()
        raise UserError(f"{folder} already holds a run: name another folder")
    journal.write(
        RunStarted(
            schema=SCHEMA,
            command=list(command),
            seed=seed,
            environment=environment(),
            settings=settings,
            began=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )
    )
    return journal


def is_being_written(folder: Path) -> bool:
    """Whether a process is writing this run."""
    return is_locked(folder / JOURNAL)


def fold(events: Iterable[Event]) -> Record:
    """The record of a sequence of events."""
    record = empty_record()
    for event in events:
        event.fold(record)
    return record


def empty_record() -> Record:
    """The record of no events. Environment and machine are empty until their events arrive."""
    return {
        "schema": SCHEMA,
        "command": [],
        "seed": 0,
        "environment": {},  # type: ignore[typeddict-item]
        "machine": {},  # type: ignore[typeddict-item]
        "stages": [],
        "sources": {},
        "peers": {},
        "complete": False,
        "spent": [],
        "results": [],
        "trials": [],
        "sanitized": [],
        "searches": [],
        "code": [],
    }


def _cut_torn_line(path: Path) -> None:
    """Drop the half-written last line that a killed process leaves: the next event would be appended to it."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def _cannot_write(folder: Path, error: OSError) -> str:
    return f"cannot write the record to {folder}: {error.strerror}. What was written before is kept"
