"""Joining runs into one: the parts of a split sweep, done by several machines of one class.

The merged journal is made of the events of its runs, so that everything that reads a run reads it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.record.batteries import gravity, sanitized
from kernellab.record.journal import JOURNAL, SCHEMA, Journal, Record, fold, read_journal

_OF_THE_RUN = {"run", "machine", "plan", "void", "complete"}  # written once for all, not per run
# What is tried of an op beside its cases, by what makes two of them the same; and the file of the run it names.
_BESIDE = {
    "trial": ("op", "impl", "interpreter", "trial"),
    "search": ("op", "impl"),
    "sanitized": ("op", "impl", "tool"),
}
_FILES = {"search": "file", "sanitized": "log"}

Event = dict[str, Any]


class _Run:
    """One of the runs to be joined: its events, with voided ones left out, and what they fold into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = _settled(read_journal(folder))
        self.record: Record = fold(self.events)
        if not self.record["machine"]:
            raise UserError(f"{folder} ended before anything was planned: leave it out, or resume it")
        self.settings: dict[str, Any] = self.events[0]["settings"]
        self.groups: dict[str, list[dict[str, Any]]] = {}
        for result in self.record["results"]:
            self.groups.setdefault(_key(result), []).append(result)

    def reached(self, group: str) -> bool:
        return any(result["check"] is not None for result in self.groups.get(group, ()))


def merge(folders: Sequence[Path], out: Path, command: Sequence[str]) -> Record:
    """Write the runs in `folders` as one run to `out`, and return its record."""
    runs = [_Run(folder) for folder in folders]
    for run in runs[1:]:
        _refuse_other(runs[0], run)
    owners = _owners(runs)
    if (out / JOURNAL).exists():
        raise UserError(f"{out} already holds a run: name another folder")
    head = runs[0].events[0]
    targets = list(dict.fromkeys(target for run in runs for target in run.settings["targets"]))
    journal = Journal(out)
    journal.write(
        "run",
        schema=SCHEMA,
        command=list(command),
        seed=head["seed"],
        environment=head["environment"],
        settings={**head["settings"], "targets": targets, "cells": None},
        began=min(run.record.get("began") or "" for run in runs),
        merged_from=[_origin(run) for run in runs],
    )
    journal.write("machine", machine=runs[0].record["machine"])
    journal.write("plan", groups=[_planned(owners[g].groups[g]) for g in owners], sources=_sources(runs))
    for run in runs:
        for event in run.events:
            if event["event"] not in _OF_THE_RUN and owners.get(_key(event)) is run:
                _copy(event, journal)
    for run, event in _beside(runs):
        _copy(event, journal)
        _copy_file(event, run.folder, out)
    if all(run.record["complete"] for run in runs):
        journal.write("complete")
    journal.save()
    journal.close()
    return journal.record


def _key(thing: Mapping[str, Any]) -> str:
    return json.dumps([thing.get("op"), thing.get("case")], sort_keys=True)


def _settled(events: Iterable[Event]) -> list[Event]:
    """What still counts: an op whose source changed while its run was interrupted was done again."""
    kept: list[Event] = []
    for event in events:
        if event["event"] == "void":
            kept = [e for e in kept if e.get("op") != event["op"]]
            for plan in kept:
                if plan["event"] == "plan":
                    plan["groups"] = [group for group in plan["groups"] if group["op"] != event["op"]]
        else:
            kept.append(event)
    return kept


# What may be joined ------------------------------------------------------------------------------------


def _decisive(record: Mapping[str, Any]) -> dict[str, Any]:
    """What decides speed and results; which board of its kind it was does not."""
    environment, machine = record["environment"], record["machine"]
    gpu = next((g for g in environment["gpus"] if g["uuid"] in machine["name"]), None)
    device = {"device": gpu["name"], "driver": gpu["driver"]} if gpu else {"device": machine["name"]}
    python = ".".join(environment["python"].split(".")[:2])
    return {**device, "python": python, **environment["packages"], "cuda": machine["cuda"]}


def _refuse_other(first: _Run, other: _Run) -> None:
    mine, theirs = ({**_decisive(r.record), "seed": r.record["seed"]} for r in (first, other))
    differing = [
        f"{name} ({mine.get(name)}, {theirs.get(name)})"
        for name in dict.fromkeys([*mine, *theirs])
        if mine.get(name) != theirs.get(name)
    ]
    if first.record["stages"] != other.record["stages"]:
        differing.append(f"stages ({' and '.join(first.record['stages'])}, {' and '.join(other.record['stages'])})")
    ours, sources = first.record["sources"], other.record["sources"]
    differing += [f"the source of {op}" for op in ours if op in sources and sources[op] != ours[op]]
    if differing:
        raise UserError(f"{first.folder} and {other.folder} cannot be joined: they differ in {', '.join(differing)}")


def _owners(runs: Sequence[_Run]) -> dict[str, _Run]:
    """Each group of one op and one case with the run it is taken from, in the order of an unsplit run.

    Ways are compared within rounds, so the ways of a case come from one run, never from several.
    """
    owners: dict[str, _Run] = {}
    for group, run in _in_order(runs):
        before = owners.get(group)
        if before is None or not before.reached(group):
            owners[group] = run
        elif run.reached(group) and run.groups[group] != before.groups[group]:
            case = run.groups[group][0]
            raise UserError(
                f"{before.folder} and {run.folder} both measured {case['op']} at {json.dumps(case['case']['dims'])}"
                f" {case['case']['dtype']}, with different results: leave one of them out"
            )
    return owners


def _in_order(runs: Sequence[_Run]) -> list[tuple[str, _Run]]:
    """Cells of one split are dealt back as they were dealt out; other runs follow one another."""
    splits = {(run.settings.get("cells") or [0, None])[1] for run in runs}
    dealt = len(splits) == 1 and None not in splits
    found = []
    for at, run in enumerate(runs):
        for number, group in enumerate(run.groups):
            found.append(((number, run.settings["cells"][0]) if dealt else (at, number), group, run))
    return [(group, run) for _, group, run in sorted(found, key=lambda entry: entry[0])]


def _beside(runs: Sequence[_Run]) -> list[tuple[_Run, Event]]:
    """Trials, searches and what sanitizers found. Each cell of a split has the op's whole battery: what several runs
    did counts once, as the one that tells most."""
    kept: dict[str, tuple[_Run, Event]] = {}
    for run in runs:
        for event in run.events:
            if same := _BESIDE.get(event["event"]):
                key = json.dumps([event["event"], *(event.get(name) for name in same)], sort_keys=True)
                before = kept.get(key)
                if before is None or _telling(event) > _telling(before[1]):
                    kept[key] = (run, event)
    return list(kept.values())


def _telling(event: Event) -> tuple[int, int]:
    """A failure tells more than a success, that more than nothing at all."""
    if event["event"] == "search":
        return "script" in event, event["drawn"]
    if event["event"] == "sanitized":
        return gravity(sanitized([event])[0]["status"]), event["cases"]
    return gravity(event["status"]), 0


# What is written ---------------------------------------------------------------------------------------


def _copy(event: Event, journal: Journal) -> None:
    journal.write(**{k: v for k, v in event.items() if k != "t"})


def _copy_file(event: Event, folder: Path, out: Path) -> None:
    """The script or the log an event names; only a run's own, whatever its journal says, and if it is still there."""
    named = event.get(_FILES.get(event["event"], ""))
    if named:
        file = Path("artifacts") / Path(named).name
        with contextlib.suppress(OSError):
            shutil.copyfile(folder / file, out / file)


def _planned(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    impls = {result["impl"]: result["kind"] for result in results}
    return {"op": results[0]["op"], "case": results[0]["case"], "impls": impls}


def _sources(runs: Sequence[_Run]) -> dict[str, str]:
    return {op: source for run in runs for op, source in run.record["sources"].items()}


def _origin(run: _Run) -> dict[str, Any]:
    head = run.events[0]
    return {
        "folder": str(run.folder.resolve()),
        "command": head["command"],
        "began": head.get("began"),
        "commit": head["environment"].get("commit"),
        "machine": run.record["machine"]["name"],
        "ceilings": run.record["machine"]["ceilings"],
        "cells": run.settings.get("cells"),
    }
