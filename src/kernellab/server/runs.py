"""What the pages show of the runs: asked of the index, and read from the folder of a run that is opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from kernellab.base.errors import UserError
from kernellab.comparison.compare import Side, compare
from kernellab.history.digest import COMPLETE, UNREADABLE
from kernellab.history.index import Index
from kernellab.history.queries import IndexedRun, Outcomes, all_runs, outcomes
from kernellab.record.reading import load
from kernellab.record.statuses import FAILED, OK, UNKNOWN
from kernellab.record.verdict import derive
from kernellab.reporting.comparisons import page as comparison_page
from kernellab.reporting.html.parts import label
from kernellab.reporting.report.document import report
from kernellab.reporting.report.parts.section import Run
from kernellab.server.pages import PAGE_ROWS, Filter, RunRow, page_count, run_list

_HOME = "/"
_NAME, _ANSWER, _SHORT = 120, 200, 60  # characters


class NoSuchRun(UserError):
    """A run that the index does not know."""


class _Entry(NamedTuple):
    """A run of the index, how its implementations fared, and its key."""

    key: str
    run: IndexedRun
    outcomes: Outcomes


@dataclass(frozen=True)
class Runs:
    """The runs below a folder. Every question reads what is new first."""

    root: Path

    def list_page(self, query: Mapping[str, str], page: int) -> str:
        """The list of runs that match the filters of a query, the newest first. Beyond its last page, that one."""
        entries = self._entries()
        filters = [_filter(name, entries, label(query[name], _NAME) if query.get(name) else "") for name in _FILTERS]
        text = query.get("text", "").strip()
        matching = [entry for entry in reversed(entries) if self._matches(entry, query, text)]
        page = min(page, page_count(len(matching)))
        shown = matching[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        return run_list([self._row(entry) for entry in shown], len(matching), page, filters, text)

    def report(self, key: str) -> str:
        folder = self.folder(key)
        return report([Run(derive(load(folder)), [folder])], _HOME)

    def comparison(self, before: str, after: str) -> str:
        folders = [self.folder(key) for key in (before, after)]
        sides = [Side(_name(self.root, folder), [load(folder)]) for folder in folders]
        return comparison_page.document(compare(*sides), _HOME)

    def folder(self, key: str) -> Path:
        """The folder of a run. Only what the index found is opened."""
        for entry in self._entries():
            if entry.key == key:
                return entry.run.folder
        raise NoSuchRun("There is no such run: it may have been removed.")

    def _entries(self) -> list[_Entry]:
        if not self.root.is_dir():
            raise UserError(f"The folder {self.root} is no longer there.")
        with Index(self.root) as index:
            index.refresh()
            by_folder = outcomes(index)
            return [
                _Entry(_key(self.root, run.folder), run, by_folder.get(run.folder, Outcomes()))
                for run in all_runs(index)
            ]

    def _matches(self, entry: _Entry, query: Mapping[str, str], text: str) -> bool:
        if any(query[name] not in _values(name, entry) for name in _FILTERS if query.get(name)):
            return False
        run = entry.run
        return text.lower() in " ".join([_name(self.root, run.folder), run.command, run.commit or ""]).lower()

    def _row(self, entry: _Entry) -> RunRow:
        run = entry.run
        answer, tone = _answer(entry)
        return RunRow(
            key=entry.key,
            name=label(_name(self.root, run.folder), _NAME),
            when=datetime.fromtimestamp(run.time).strftime("%Y-%m-%d %H:%M"),
            ops=label(", ".join(label(op, _SHORT) for op in entry.outcomes.ops) or "–", _ANSWER),
            answer=label(answer, _ANSWER),
            tone=tone,
            branch=label(run.branch or "–", _SHORT),
            commit=label((run.commit or "–")[:10], _SHORT),
            machine=label(run.machine or "–", _SHORT),
            readable=run.state != UNREADABLE,
            unfinished=run.state not in (COMPLETE, UNREADABLE),
        )


# Texts that a run can be chosen by, as they are shown: a stranger's may be megabytes long.
_FILTERS: dict[str, Callable[[_Entry], Iterable[str | None]]] = {
    "op": lambda entry: entry.outcomes.ops,
    "machine": lambda entry: [entry.run.machine],
    "branch": lambda entry: [entry.run.branch],
    "state": lambda entry: [entry.run.state],
}


def _filter(name: str, entries: Iterable[_Entry], chosen: str) -> Filter:
    values = {value for entry in entries for value in _values(name, entry)}
    return Filter(name, sorted(values | ({chosen} if chosen else set())), chosen)


def _values(name: str, entry: _Entry) -> list[str]:
    return [label(value, _NAME) for value in _FILTERS[name](entry) if value]


def _key(root: Path, folder: Path) -> str:
    """A run in an address: the same as long as its folder has its name."""
    return hashlib.sha256(os.fsencode(folder.relative_to(root.resolve()))).hexdigest()[:16]


def _name(root: Path, folder: Path) -> str:
    return str(folder.relative_to(root.resolve()))


_WORDS = {OK.name: "right", UNKNOWN: "cannot tell"}


def _answer(entry: _Entry) -> tuple[str, str]:
    """What came out, and its tone."""
    run, statuses = entry.run, entry.outcomes.statuses
    if run.state == UNREADABLE:
        return run.problem or run.state, "bad"
    counts = ", ".join(f"{number} {_WORDS.get(status, status)}" for status, number in statuses.items())
    if not counts:
        return ("nothing was checked or timed", "") if run.state == COMPLETE else (run.state, "warn")
    if run.state != COMPLETE:
        return f"{run.state}: {counts}", "warn"
    return counts, "bad" if FAILED & statuses.keys() else "good"
