"""The record: what one run observed, kept so that nothing is lost.

`journal.jsonl` is the truth: one event per line, appended and flushed. `run.json` is the same folded
into results, replaced as a whole after each group. Verdicts are not kept here: `verdict` computes them.
docs/record.md describes both.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.paths import replace_file
from kernellab.machine.environment import environment

SCHEMA = 3
SERIES = ("pass", "timer", "cache")
_HOW_TIMED = ("looks", "decided", "precision", "warmups", "warmup_s", "steady", "telemetry")
JOURNAL, RUN = "journal.jsonl", "run.json"

Record = dict[str, Any]


class Journal:
    """Appends events to a run's journal and keeps the record they fold into."""

    def __init__(self, folder: Path, events: Iterable[Mapping[str, Any]] = ()) -> None:
        self.folder = folder
        self._made = [path for path in (folder / "artifacts", folder) if not path.exists()]
        self._fresh = not (folder / JOURNAL).exists()
        self.record = fold(events)
        self._began = time.monotonic()
        try:
            (folder / "artifacts").mkdir(parents=True, exist_ok=True)
            self._file = (folder / JOURNAL).open("ab")
            _cut_torn_line(folder / JOURNAL)
        except OSError as error:
            raise UserError(
                f"cannot write the record to {folder}: {error.strerror}. --out DIR names another place"
            ) from None

    def write(self, event: str, **fields: Any) -> None:
        entry = {"event": event, "t": round(time.monotonic() - self._began, 3), **fields}
        try:
            self._file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise UserError(_cannot_write(self.folder, error)) from None
        apply(self.record, entry)

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
        """Undo the making of a run that never began; whatever was there before stays."""
        self.close()
        if not self._fresh:
            return
        (self.folder / JOURNAL).unlink(missing_ok=True)
        for log in (self.folder / "artifacts").glob("worker-*.log"):
            log.unlink()
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def begin(folder: Path, settings: Mapping[str, Any], command: Iterable[str]) -> Journal:
    """A new journal with its head: what was asked for, by which command, where and when."""
    journal = Journal(folder)
    journal.write(
        "run",
        schema=SCHEMA,
        command=list(command),
        seed=settings["seed"],
        environment=environment(),
        settings=settings,
        began=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    )
    return journal


def _cut_torn_line(path: Path) -> None:
    """What a killed process left half-written must not run into the next event."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def _cannot_write(folder: Path, error: OSError) -> str:
    return f"cannot write the record to {folder}: {error.strerror}. What was written before is kept"


# Reading -----------------------------------------------------------------------------------------------


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The events of a run. A half-written last line is what a killed process leaves, and is dropped."""
    path = folder / JOURNAL
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"no run at {folder}: {path.name} cannot be read ({error.strerror})") from None
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise UserError(f"{path} is damaged at line {number}: it is not JSON") from None
    if not all(isinstance(event, dict) and isinstance(event.get("event"), str) for event in events):
        raise UserError(f"{path} is damaged: not every line is an event")
    if not events or events[0]["event"] != "run":
        raise UserError(f"{path} is damaged: it does not begin with a run")
    _refuse_newer(events[0], path)
    if not isinstance(events[0].get("settings"), dict) or "targets" not in events[0]["settings"]:
        raise UserError(f"{path} is damaged: its run has no settings")
    return events


def load(path: Path) -> Record:
    """A record from a run's folder, its run.json or its journal; the journal wins where it knows more."""
    folder = path if path.is_dir() else path.parent
    if (folder / JOURNAL).exists() and path.name != RUN:
        return fold(read_journal(folder))
    file = path / RUN if path.is_dir() else path
    try:
        record = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"no record at {path}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{file} is damaged: it is not JSON") from None
    if not isinstance(record, dict) or "schema" not in record or not isinstance(record.get("results"), list):
        raise UserError(f"{file} is not a kernellab record")
    _refuse_newer(record, file)
    return _upgraded(record)


def _upgraded(record: Record) -> Record:
    """A record of schema 1 in today's form: it knew one pass, and its cost."""
    if record["schema"] == 1:
        for result in record["results"]:
            cost = result.get("cost")
            result.update(gradients=None, cost={"forward": cost} if cost else {}, memory={}, built=None, inside=None)
            result.pop("telemetry", None)
        record |= {"spent": []}
    if record["schema"] < 3:  # there was no battery
        record |= {"trials": [], "schema": SCHEMA}
    record.setdefault("sanitized", [])
    record.setdefault("searches", [])
    record.setdefault("code", [])
    for result in record["results"]:
        result.setdefault("traffic", None)
    return record


def _refuse_newer(head: Mapping[str, Any], path: Path) -> None:
    schema = head.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UserError(f"{path} has schema {schema}, this kernellab reads up to {SCHEMA}: update kernellab")


# Folding -----------------------------------------------------------------------------------------------


def fold(events: Iterable[Mapping[str, Any]]) -> Record:
    """Events → record. The only way a record comes about."""
    record: Record = {
        "schema": SCHEMA,
        "command": [],
        "seed": 0,
        "environment": {},
        "machine": {},
        "stages": [],
        "sources": {},
        "complete": False,
        "spent": [],
        "results": [],
        "trials": [],
        "sanitized": [],
        "searches": [],
        "code": [],
    }
    for event in events:
        apply(record, event)
    return record


def apply(record: Record, event: Mapping[str, Any]) -> None:
    """Add one event to a record in place."""
    handler = _HANDLERS.get(event["event"])
    if handler is not None:
        handler(record, event)


def result_of(record: Record, op: str, impl: str, case: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a way at a case, made if absent."""
    for result in record["results"]:
        if result["op"] == op and result["impl"] == impl and result["case"] == case:
            found: dict[str, Any] = result
            return found
    made: dict[str, Any] = {
        "op": op,
        "impl": impl,
        "kind": None,
        "case": dict(case),
        "check": None,
        "gradients": None,
        "times": [],
        "cost": {},
        "memory": {},
        "built": None,
        "kernels": None,
        "inside": None,
        "traffic": None,
        "guards": [],
    }
    record["results"].append(made)
    return made


def _run(record: Record, event: Mapping[str, Any]) -> None:
    record.update({k: event[k] for k in ("command", "seed", "environment")})  # folded, it has today's schema
    record.update({k: event[k] for k in ("began", "merged_from") if k in event})
    record["stages"] = event["settings"].get("stages", [])


def _machine(record: Record, event: Mapping[str, Any]) -> None:
    record["machine"] = event["machine"]


def _plan(record: Record, event: Mapping[str, Any]) -> None:
    record["sources"].update(event["sources"])
    for group in event["groups"]:
        for impl, kind in group["impls"].items():
            result_of(record, group["op"], impl, group["case"])["kind"] = kind


def _check(record: Record, event: Mapping[str, Any]) -> None:
    _result(record, event)["check" if event.get("pass", "forward") == "forward" else "gradients"] = event["check"]


def _cost(record: Record, event: Mapping[str, Any]) -> None:
    for result in _group(record, event):
        result["cost"][event.get("pass", "forward")] = event["cost"]


def _round(record: Record, event: Mapping[str, Any]) -> None:
    for result in _group(record, event):
        if result["impl"] in event["samples_us"]:
            samples = event["samples_us"][result["impl"]]
            samples = samples if isinstance(samples, list) else [samples]  # schema 1 had one a round
            times = _times(result, event)
            times["samples_us"] += samples
            times["rounds"] += [event["round"]] * len(samples)
            times["calls"] = event.get("calls", {}).get(result["impl"], 1)


def _times(result: dict[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a way's `times` that an event is about, made if absent."""
    kind = {k: event.get(k) for k in SERIES}
    for times in result["times"]:
        if all(times[k] == v for k, v in kind.items()):
            found: dict[str, Any] = times
            return found
    result["times"].append({**kind, "status": "partial", "reason": None, "samples_us": [], "rounds": []})
    made: dict[str, Any] = result["times"][-1]
    return made


def _timed(record: Record, event: Mapping[str, Any]) -> None:
    for result in _group(record, event):
        if result["impl"] in event["impls"]:
            if "timer" not in event:  # schema 1: there was one series
                for times in result["times"]:
                    times["status"] = "ok"
                continue
            how = {k: v for k, v in event.items() if k in _HOW_TIMED}
            floor_us = event.get("floor_us", {}).get(result["impl"])
            _times(result, event).update(how, status="ok", floor_us=floor_us)


def _discard(record: Record, event: Mapping[str, Any]) -> None:
    """A death while timing spoils the samples of everyone who was interleaved with it."""
    for result in _group(record, event):
        result["times"] = [t for t in result["times"] if t["status"] != "partial"]


def _fault(record: Record, event: Mapping[str, Any]) -> None:
    result = _result(record, event)
    fault = {k: event[k] for k in ("status", "reason", "needed_bytes") if k in event}
    if event["phase"] in ("check", "gradients"):
        result[event["phase"]] = {**(result[event["phase"]] or {}), **fault}
    elif event["phase"] != "profile":
        _times(result, {"pass": "forward", **event}).update(fault, samples_us=[], rounds=[])


def _built(record: Record, event: Mapping[str, Any]) -> None:
    """What was compiled for a way; the second pass's check may compile more."""
    result = _result(record, event)
    if result["built"] is None:
        result["built"] = dict(event["built"])
        return
    result["built"]["seconds"] += event["built"]["seconds"]
    result["built"]["tuned"] = result["built"]["tuned"] + event["built"]["tuned"]
    if "compile" in event["built"]:
        before = result["built"].get("compile", {})
        result["built"]["compile"] = {k: v + before.get(k, 0) for k, v in event["built"]["compile"].items()}


def _memory(record: Record, event: Mapping[str, Any]) -> None:
    _result(record, event)["memory"][event["pass"]] = event["memory"]


def _inside(record: Record, event: Mapping[str, Any]) -> None:
    _result(record, event)["inside"] = event["inside"]


def _traffic(record: Record, event: Mapping[str, Any]) -> None:
    _result(record, event)["traffic"] = event["traffic"]


def _spent(record: Record, event: Mapping[str, Any]) -> None:
    record["spent"].append({k: event[k] for k in ("op", "case", "seconds")})


def _kernels(record: Record, event: Mapping[str, Any]) -> None:
    _result(record, event)["kernels"] = event["kernels"]


def _guard(record: Record, event: Mapping[str, Any]) -> None:
    guards = _result(record, event)["guards"]
    if event["guard"] not in guards:
        guards.append(event["guard"])


def _trial(record: Record, event: Mapping[str, Any]) -> None:
    """What a way made of one trial of the battery."""
    record["trials"].append({k: v for k, v in event.items() if k not in ("event", "t")})


def _sanitized(record: Record, event: Mapping[str, Any]) -> None:
    """What a tool of compute-sanitizer found while a way ran under it."""
    record["sanitized"].append({k: v for k, v in event.items() if k not in ("event", "t")})


def _search(record: Record, event: Mapping[str, Any]) -> None:
    """How much was drawn for a way beyond its battery; a failure is among the trials."""
    record["searches"].append({k: v for k, v in event.items() if k not in ("event", "t")})


def _code(record: Record, event: Mapping[str, Any]) -> None:
    """What a way compiled to at a case, for one architecture: its kernels, or why there are none."""
    record["code"].append({k: v for k, v in event.items() if k not in ("event", "t")})
    record["code"].sort(key=lambda entry: entry["order"])


def _void(record: Record, event: Mapping[str, Any]) -> None:
    """An op whose source changed since: what was observed of it no longer counts."""
    for kept in ("results", "trials", "searches", "sanitized", "code"):
        record[kept] = [one for one in record[kept] if one["op"] != event["op"]]


def _complete(record: Record, event: Mapping[str, Any]) -> None:
    record["complete"] = True


def _result(record: Record, event: Mapping[str, Any]) -> dict[str, Any]:
    return result_of(record, event["op"], event["impl"], event["case"])


def _group(record: Record, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [r for r in record["results"] if r["op"] == event["op"] and r["case"] == event["case"]]


_HANDLERS = {
    "run": _run,
    "machine": _machine,
    "plan": _plan,
    "check": _check,
    "cost": _cost,
    "round": _round,
    "timed": _timed,
    "discard": _discard,
    "fault": _fault,
    "kernels": _kernels,
    "built": _built,
    "memory": _memory,
    "inside": _inside,
    "traffic": _traffic,
    "spent": _spent,
    "trial": _trial,
    "sanitized": _sanitized,
    "search": _search,
    "code": _code,
    "guard": _guard,
    "void": _void,
    "complete": _complete,
}
