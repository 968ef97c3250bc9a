"""Merges runs into one: the parts of a split sweep that ran on several machines of one class.

The merged journal consists of the events of its runs, so that everything that reads a run can read it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.json import JsonValue
from kernellab.declaration.documents import CaseJson
from kernellab.record.batteries import severity, with_verdict
from kernellab.record.battery_events import OpEvent, SanitizerFinished, SearchFinished, TrialFinished
from kernellab.record.event import CaseEvent
from kernellab.record.journal import JOURNAL, Journal
from kernellab.record.reading import Line, fold_lines, head_of, read_journal
from kernellab.record.run_events import MachineDescribed, OpVoided, PlannedGroup, RunCompleted, RunStarted, WorkPlanned
from kernellab.record.schema import SCHEMA, MergedRun, Record, Result

# Events about an op rather than a case. Two of them are about the same thing if these fields are equal.
_PER_OP = {
    TrialFinished: ("op", "impl", "interpreter", "trial"),
    SearchFinished: ("op", "impl"),
    SanitizerFinished: ("op", "impl", "tool"),
}


class _Run:
    """One of the runs to merge: its lines without voided ones, and the record they fold into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = read_journal(folder)
        self.head = head_of(lines)
        self.lines = _without_voided(lines)
        self.record: Record = fold_lines(self.lines, folder / JOURNAL)
        if not self.record["machine"]:
            raise UserError(f"{folder} ended before anything was planned: leave it out, or resume it")
        self.groups: dict[str, list[Result]] = {}
        for result in self.record["results"]:
            self.groups.setdefault(_group_key(result["op"], result["case"]), []).append(result)

    @property
    def targets(self) -> list[JsonValue]:
        targets = self.head.settings["targets"]
        return targets if isinstance(targets, list) else []

    @property
    def cells(self) -> list[int] | None:
        """[i, n] of `--cells i/n`; None if the run was not split."""
        cells = self.head.settings.get("cells")
        return [number for number in cells if isinstance(number, int)] if isinstance(cells, list) else None

    def has_checked(self, group: str) -> bool:
        return any(result["check"] is not None for result in self.groups.get(group, ()))


def merge(folders: Sequence[Path], out: Path, command: Sequence[str]) -> Record:
    """Write the runs in `folders` as one run to `out`, and return its record."""
    runs = [_Run(folder) for folder in folders]
    for run in runs[1:]:
        _refuse_different(runs[0], run)
    owners = _owners(runs)
    if (out / JOURNAL).exists():
        raise UserError(f"{out} already holds a run: name another folder")
    journal = Journal(out)
    _write_head(journal, runs, owners, command)
    for run in runs:
        for line in run.lines:
            event = line.event
            if isinstance(event, CaseEvent) and owners.get(_group_key(event.op, event.case)) is run:
                journal.copy(line.entry)
    for run, line in _per_op_lines(runs):
        journal.copy(line.entry)
        _copy_file(line, run.folder, out)
    if all(run.record["complete"] for run in runs):
        journal.write(RunCompleted())
    journal.save()
    journal.close()
    return journal.record


def _group_key(op: str, case: CaseJson | None) -> str:
    return json.dumps([op, case], sort_keys=True)


def _without_voided(lines: Iterable[Line]) -> list[Line]:
    """The lines that still count. If an op's source changed while its run was interrupted, the op was run again."""
    kept: list[Line] = []
    for line in lines:
        if not isinstance(line.event, OpVoided):
            kept.append(line)
            continue
        op = line.event.op
        kept = [_without_op(earlier, op) for earlier in kept if earlier.entry.get("op") != op]
    return kept


def _without_op(line: Line, op: str) -> Line:
    """A plan without the groups of an op; any other line unchanged."""
    if not isinstance(line.event, WorkPlanned):
        return line
    groups = [group for group in line.event.groups if group["op"] != op]
    plan = WorkPlanned(groups=groups, sources=line.event.sources, peers=line.event.peers)
    return Line(plan.to_json(), plan)


# What may be merged ------------------------------------------------------------------------------------


def _decisive_facts(record: Record) -> dict[str, str | None]:
    """What determines speed and results. Which board of a model was used does not."""
    environment, machine = record["environment"], record["machine"]
    gpu = next((g for g in environment["gpus"] if g["uuid"] in machine["name"]), None)
    device = {"device": gpu["name"], "driver": gpu["driver"]} if gpu else {"device": machine["name"]}
    python = ".".join(environment["python"].split(".")[:2])
    versions = {**environment["packages"], "cuda": machine.get("cuda")}
    return {**device, "python": python, **versions, "seed": str(record["seed"])}


def _refuse_different(first: _Run, other: _Run) -> None:
    ours, theirs = _decisive_facts(first.record), _decisive_facts(other.record)
    differences = [
        f"{name} ({ours.get(name)}, {theirs.get(name)})"
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    ]
    if first.record["stages"] != other.record["stages"]:
        stages = ", ".join(" and ".join(run.record["stages"]) for run in (first, other))
        differences.append(f"stages ({stages})")
    hashes, other_hashes = first.record["sources"], other.record["sources"]
    differences += [f"the source of {op}" for op in hashes if op in other_hashes and other_hashes[op] != hashes[op]]
    if differences:
        raise UserError(f"{first.folder} and {other.folder} cannot be merged: they differ in {', '.join(differences)}")


def _owners(runs: Sequence[_Run]) -> dict[str, _Run]:
    """The run that each group is taken from, in the order of an unsplit run.

    Implementations are compared within rounds, so those of one case come from one run, never from several.
    """
    owners: dict[str, _Run] = {}
    for group, run in _ordered_groups(runs):
        before = owners.get(group)
        if before is None or not before.has_checked(group):
            owners[group] = run
        elif run.has_checked(group) and run.groups[group] != before.groups[group]:
            result = run.groups[group][0]
            raise UserError(
                f"{before.folder} and {run.folder} both measured {result['op']} at "
                f"{json.dumps(result['case']['dims'])} {result['case']['dtype']}, with different results: "
                "leave one of them out"
            )
    return owners


def _ordered_groups(runs: Sequence[_Run]) -> list[tuple[str, _Run]]:
    """The groups of one split's cells in the order of the unsplit run; other runs follow one another."""
    splits = {run.cells[1] if run.cells else None for run in runs}
    one_split = len(splits) == 1 and None not in splits
    places = []
    for run_number, run in enumerate(runs):
        for number, group in enumerate(run.groups):
            place = (number, run.cells[0]) if one_split and run.cells else (run_number, number)
            places.append((place, group, run))
    return [(group, run) for _, group, run in sorted(places, key=lambda entry: entry[0])]


def _per_op_lines(runs: Sequence[_Run]) -> list[tuple[_Run, Line]]:
    """Trials, searches and sanitizer runs. Each cell of a split runs the op's whole battery: if several runs have
    the same event, the most informative one is kept."""
    kept: dict[str, tuple[_Run, Line]] = {}
    for run in runs:
        for line in run.lines:
            names = _PER_OP.get(type(line.event))
            if names is None or not isinstance(line.event, OpEvent):
                continue
            key = json.dumps([line.entry["event"], *(line.entry.get(name) for name in names)], sort_keys=True)
            before = kept.get(key)
            if before is None or _information(line.event) > _information(before[1].event):
                kept[key] = (run, line)
    return list(kept.values())


def _information(event: object) -> tuple[int, int]:
    """The rank of an event: a failure is above a success, a success above an event that was not judged."""
    if isinstance(event, SearchFinished):
        return int(event.script is not None), event.drawn
    if isinstance(event, SanitizerFinished):
        return severity(with_verdict(event.outcome())["status"]), event.cases
    return (severity(event.status), 0) if isinstance(event, TrialFinished) else (0, 0)


# What is written ---------------------------------------------------------------------------------------


def _write_head(journal: Journal, runs: Sequence[_Run], owners: dict[str, _Run], command: Sequence[str]) -> None:
    head = runs[0].head
    targets = list({str(target): target for run in runs for target in run.targets}.values())
    journal.write(
        RunStarted(
            schema=SCHEMA,
            command=list(command),
            seed=head.seed,
            environment=head.environment,
            settings={**head.settings, "targets": targets, "cells": None},
            began=min(run.record.get("began") or "" for run in runs),
            merged_from=[_origin(run) for run in runs],
        )
    )
    journal.write(MachineDescribed(machine=runs[0].record["machine"]))
    sources = {op: source for run in runs for op, source in run.record["sources"].items()}
    peers = {name: peer for run in runs for name, peer in run.record["peers"].items()}
    groups = [_planned_group(owners[group].groups[group]) for group in owners]
    journal.write(WorkPlanned(groups=groups, sources=sources, peers=peers))


def _copy_file(line: Line, folder: Path, out: Path) -> None:
    """Copy the script or log that an event names, if it still exists; only from the run's own artifacts."""
    event = line.event
    name = event.file if isinstance(event, SearchFinished) else getattr(event, "log", None)
    if name:
        file = Path("artifacts") / Path(name).name
        with contextlib.suppress(OSError):
            shutil.copyfile(folder / file, out / file)


def _planned_group(results: Sequence[Result]) -> PlannedGroup:
    impls = {result["impl"]: result["kind"] or "python" for result in results}
    return {"op": results[0]["op"], "case": results[0]["case"], "impls": impls}


def _origin(run: _Run) -> MergedRun:
    return {
        "folder": str(run.folder.resolve()),
        "command": run.head.command,
        "began": run.head.began,
        "commit": run.head.environment.get("commit"),
        "machine": run.record["machine"]["name"],
        "ceilings": run.record["machine"].get("ceilings"),
        "cells": run.cells,
    }
