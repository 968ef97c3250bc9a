"""Histories of runs for tests and benchmarks: folders of runs with chosen times, commits and machines."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kernellab.record.event import Event
from kernellab.record.journal import Journal
from kernellab.record.schema import SCHEMA

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
MACHINE = "NVIDIA H200 driver 580"
ROUNDS = 12


def commit_name(number: int) -> str:
    """The commit of a number: 40 digits that differ from the first one on."""
    return f"{random.Random(number).getrandbits(160):040x}"


def write_run(
    folder: Path,
    times_us: Mapping[str, float] | None = None,
    *,
    number: int = 0,
    op: str = "gelu",
    size: int = 8,
    branch: str | None = "main",
    changes: str = "",
    machine: str = MACHINE,
    status: str = "ok",
    complete: bool = True,
    hours_later: float = 0.5,
) -> Path:
    """Write a run of commit `number`, one of which is made each day. `times_us`: the median time by implementation."""
    folder.mkdir(parents=True)
    journal = Journal(folder)
    for event in _events(times_us or {"triton": 10.0}, number, op, size, branch, changes, machine, status, hours_later):
        journal.write(Event.parse(event))
    if complete:
        journal.write(Event.parse({"event": "complete"}))
    journal.save()
    journal.close()
    return folder


def _events(times_us, number, op, size, branch, changes, machine, status, hours_later):
    committed = BEGINNING + timedelta(days=number)
    case = {"dims": {"N": size}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
    environment = {
        "python": "3.12",
        "packages": {"kernellab": "0.1.0", "torch": "2.13"},
        "cpu": {"name": "a CPU"},
        "gpus": [],
        "commit": commit_name(number) + changes,
        "committed": committed.isoformat(),
        "branch": branch,
    }
    began = committed + timedelta(hours=hours_later)
    yield {
        "event": "run",
        "schema": SCHEMA,
        "command": ["klab", "run", op],
        "seed": 0,
        "environment": environment,
        "settings": {"targets": [op], "stages": ["check", "time"]},
        "began": began.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    kinds = dict.fromkeys(times_us, "python")
    yield {"event": "plan", "groups": [{"op": op, "case": case, "impls": kinds}], "sources": {op: "0"}}
    yield {"event": "machine", "machine": {"device": "cpu", "name": machine, "class": machine, "ceilings": None}}
    about = {"op": op, "case": case}
    for impl in times_us:
        check = {"status": status, "reason": None if status == "ok" else "a reason"}
        yield {"event": "check", **about, "impl": impl, "check": check}
    series = {"pass": "forward", "timer": "clock", "cache": "cold"}
    noise = random.Random(f"{number} {_seed(times_us)}")
    for round_number in range(ROUNDS):
        samples = {impl: us * (1 + noise.gauss(0, 0.001)) for impl, us in times_us.items()}
        yield {"event": "round", **about, **series, "round": round_number, "samples_us": samples}
    yield {"event": "timed", **about, **series, "impls": list(times_us)}


def _seed(times_us: Mapping[str, float]) -> str:
    """What the noise of a run depends on besides its commit: equal runs have equal samples."""
    return " ".join(map(str, times_us.values()))
