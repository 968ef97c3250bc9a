"""A run in progress: its journal is read as it grows, and folds into what a page shows of it.

What is shown is observed: checks that are done, samples that are in. Verdicts belong to the report of a complete run.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TypedDict

from kernellab.base import json_files
from kernellab.base.errors import UserError
from kernellab.base.text import printable
from kernellab.record import statuses
from kernellab.record.event import Event
from kernellab.record.journal import JOURNAL, empty_record, is_being_written
from kernellab.record.reading import parse_line
from kernellab.record.result_events import PhaseBegun, PhaseEnded, RoundTimed, SeriesTimed
from kernellab.record.run_events import WorkPlanned
from kernellab.record.schema import Result
from kernellab.reporting.text import numbers

MOST_ROWS = 2000
_MOST_CHARACTERS = 300  # of a name or a reason


class LiveRow(TypedDict):
    """One implementation at one case, as the page shows it."""

    op: str
    case: str
    impl: str
    check: str
    tone: str  # a class of base.css
    time: str
    rounds: int


class LiveState(TypedDict):
    """All that the page shows."""

    now: str
    steps: int
    steps_done: int
    timed: int  # implementations with samples
    trials: int
    rows: list[LiveRow]
    rows_left_out: int
    complete: bool
    problem: str  # why nothing more comes


class LiveRun:
    """A run whose journal may still grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / JOURNAL
        self._offset = 0
        self._lines = 0
        self._record = empty_record()
        self._now = ""
        self._steps = 0
        self.problem = ""

    @property
    def complete(self) -> bool:
        return self._record["complete"]

    def read(self) -> bool:
        """Fold in what was written since the last time; whether there was anything."""
        if self.problem:
            return False
        writing = is_being_written(self._folder)  # asked first: what a writer leaves at its end is read below
        try:
            new = json_files.read_bytes(self._path, start=self._offset)
        except OSError as error:
            self.problem = f"{JOURNAL} cannot be read: {error.strerror}"
            return True
        except json_files.Refused as refused:
            self.problem = f"{JOURNAL} is not read: {refused}"
            return True
        whole = new[: new.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        for text in whole.splitlines():
            self._lines += 1
            place = f"{JOURNAL} is damaged at line {self._lines}"
            try:
                self._fold(parse_line(json_files.parse(text), place).event)
            except json_files.Refused as refused:
                self.problem = f"{place}: {refused}"
            except UserError as error:
                self.problem = error.message
            if self.problem:
                break
        if not whole and not self.complete and not writing:
            self.problem = "This run ended before it was complete. klab run --resume continues it."
            return True
        return bool(whole)

    def _fold(self, event: Event | None) -> None:
        if event is None:  # of a newer version
            return
        event.fold(self._record)
        if isinstance(event, WorkPlanned):
            self._steps = sum(len(group["impls"]) for group in event.groups)
        elif isinstance(event, PhaseBegun):
            case = numbers.case_label(event.case) if event.case else ""
            self._now = f"{event.op} {case}: {event.phase} {event.impl or ''}".strip()
        elif isinstance(event, PhaseEnded):
            self._now = ""
        elif isinstance(event, RoundTimed) and event.case:
            self._now = f"{event.op} {numbers.case_label(event.case)}: timing, round {event.round + 1}"
        elif isinstance(event, SeriesTimed):
            self._now = ""

    def state(self) -> LiveState:
        results = self._record["results"]
        return {
            "now": printable(self._now, _MOST_CHARACTERS),
            "steps": self._steps,
            "steps_done": sum(result["check"] is not None for result in results),
            "timed": sum(bool(result["times"]) for result in results),
            "trials": len(self._record["trials"]),
            "rows": [_row(result) for result in results[:MOST_ROWS]],
            "rows_left_out": max(0, len(results) - MOST_ROWS),
            "complete": self.complete,
            "problem": printable(self.problem, _MOST_CHARACTERS),
        }


def _row(result: Result) -> LiveRow:
    check = result["check"]
    samples = result["times"][0]["samples_us"] if result["times"] else []
    return {
        "op": printable(result["op"], _MOST_CHARACTERS),
        "case": printable(numbers.case_label(result["case"]), _MOST_CHARACTERS),
        "impl": printable(result["impl"], _MOST_CHARACTERS),
        "check": _check_text(check["status"], check["reason"]) if check else "",
        "tone": _tone(check["status"]) if check else "",
        "time": numbers.duration(statistics.median(samples)) if samples else "",
        "rounds": len(set(result["times"][0]["rounds"])) if result["times"] else 0,
    }


def _tone(status: str) -> str:
    if status in statuses.RIGHT:
        return "good"
    return "bad" if status in statuses.FAILED else "faint"


def _check_text(status: str, reason: str | None) -> str:
    return printable(f"{status}: {reason}" if reason else status, _MOST_CHARACTERS)
