"""Reads runs: from a journal or from run.json, also of older versions of kernellab.

An unreadable file is refused in one sentence that names the file, the place and the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

from kernellab.base import json_files, shape
from kernellab.base.errors import UserError
from kernellab.base.json import JsonObject
from kernellab.base.message import DamagedMessage, UnknownMessage
from kernellab.record.consistency import find_contradiction
from kernellab.record.event import CaseEvent, Event
from kernellab.record.journal import JOURNAL, RUN, fold
from kernellab.record.run_events import RunStarted
from kernellab.record.schema import SCHEMA, Record


class Line(NamedTuple):
    """One line of a journal: its JSON, and the event it holds; None for an event of a newer version."""

    entry: JsonObject
    event: Event | None


def read_journal(folder: Path) -> list[Line]:
    """The lines of a run's journal. A half-written last line, which a killed process leaves, is dropped."""
    path = folder / JOURNAL
    try:
        texts = json_files.read_bytes(path).splitlines()
    except OSError as error:
        raise UserError(f"no run at {folder}: {path.name} cannot be read ({error.strerror})") from None
    except json_files.Refused as refused:
        raise UserError(f"{path} is not read: {refused}") from None
    lines = []
    for number, text in enumerate(texts, 1):
        try:
            entry = json_files.parse(text)
        except json_files.Refused as refused:
            if number < len(texts):
                raise UserError(f"{path} is damaged at line {number}: {refused}") from None
            break
        lines.append(parse_line(entry, f"{path} is damaged at line {number}"))
    head = lines[0].event if lines else None
    if not isinstance(head, RunStarted):
        raise UserError(f"{path} is damaged: it does not begin with a run")
    _refuse_newer(head.schema, path)
    if "targets" not in head.settings:
        raise UserError(f"{path} is damaged: its run has no settings")
    return lines


def head_of(lines: list[Line]) -> RunStarted:
    """The first event of a journal that was read."""
    head = lines[0].event
    assert isinstance(head, RunStarted)
    return head


def events_of(lines: list[Line]) -> list[Event]:
    """The events known to this version."""
    return [line.event for line in lines if line.event is not None]


def fold_lines(lines: list[Line], journal: Path) -> Record:
    """The record of the lines of a journal. Refused if it contradicts itself."""
    record = fold(events_of(lines))
    _refuse_contradictions(record, journal)
    return record


def parse_line(entry: object, problem: str) -> Line:
    """One line of a journal. `problem` begins the message where it cannot be read."""
    if not isinstance(entry, dict) or not isinstance(entry.get("event"), str):
        raise UserError(f"{problem}: it is not an event")
    try:
        event = Event.parse(entry)
    except UnknownMessage:
        return Line(entry, None)
    except DamagedMessage as damage:
        if entry["event"] == "run":  # of a newer version perhaps, which is the better message
            _refuse_newer(entry.get("schema"), Path(problem.split(" is damaged")[0]))
        raise UserError(f"{problem}: {damage}") from None
    if isinstance(event, CaseEvent) and event.case is None:
        raise UserError(f"{problem}: `{event.message_name}` has no `case`")
    return Line(entry, event)


def load(path: Path) -> Record:
    """A record from a run's folder, its run.json or its journal. Where both exist the journal is read."""
    folder = path if path.is_dir() else path.parent
    if (folder / JOURNAL).exists() and path.name != RUN:
        return fold_lines(read_journal(folder), folder / JOURNAL)
    file = path / RUN if path.is_dir() else path
    try:
        document = json_files.parse(json_files.read_bytes(file))
    except OSError as error:
        raise UserError(f"no record at {path}: {error.strerror}") from None
    except json_files.Refused as refused:
        raise UserError(f"{file} is damaged: {refused}") from None
    if not isinstance(document, dict) or "schema" not in document or not isinstance(document.get("results"), list):
        raise UserError(f"{file} is not a kernellab record")
    _refuse_newer(document["schema"], file)
    return _validate(document, file)


def _validate(document: JsonObject, file: Path) -> Record:
    """The document in today's format. Refused if a field is missing or of the wrong type."""
    document = _upgrade(document)
    # A run that was interrupted early has no machine yet.
    checked = {key: value for key, value in document.items() if value != {} or key not in ("environment", "machine")}
    types = shape.fields(Record)
    for key, declared in types.items():
        if key in checked:
            problem = shape.difference(checked[key], declared, key)
        else:
            problem = f"it has no `{key}`" if shape.is_required(Record, key) and key not in document else None
        if problem:
            raise UserError(f"{file} is damaged: {problem}")
    record = cast(Record, document)
    _refuse_contradictions(record, file)
    return record


def _refuse_contradictions(record: Record, file: Path) -> None:
    problem = find_contradiction(record)
    if problem:
        raise UserError(f"{file} is damaged: {problem}")


def _upgrade(document: JsonObject) -> JsonObject:
    """A record of an older schema in today's format. Schema 1 had one pass and its cost; schema 2 had no battery."""
    schema = document["schema"]
    results = [result for result in cast("list[object]", document["results"]) if isinstance(result, dict)]
    if schema == 1:
        for result in results:
            cost = result.get("cost")
            result.update(gradients=None, cost={"forward": cost} if cost else {}, memory={}, built=None, inside=None)
            result.pop("telemetry", None)
        document["spent"] = []
    if schema in (1, 2):
        document |= {"trials": [], "schema": SCHEMA}
    for key in ("sanitized", "searches", "code"):
        document.setdefault(key, [])
    document.setdefault("peers", {})
    for result in results:
        result.setdefault("traffic", None)
    return document


def _refuse_newer(schema: object, path: Path) -> None:
    if not isinstance(schema, int) or schema < 1:
        raise UserError(f"{path} is not a kernellab record: its schema is {schema!r:.40}")
    if schema > SCHEMA:
        raise UserError(f"{path} has schema {schema}, this kernellab reads up to {SCHEMA}: update kernellab")
