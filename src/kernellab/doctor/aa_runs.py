"""Repeats the A/A op, each run in a process of its own, and keeps the records that are complete."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.record import verdict
from kernellab.record.reading import load
from kernellab.record.schema import Record
from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import program

OP = "kernellab.doctor.aa_op:aa"
_PROGRAM = "kernellab.running.programs.aa_run"
_MOST_FAILURES = 3  # if the first runs all fail, no run will succeed


class RunFailed(Exception):
    """One run gave no complete record; the message says why. Others may succeed."""


@dataclass
class RunSeries:
    """The complete records of repeated runs."""

    records: list[Record] = field(default_factory=list)
    interrupted: bool = False


def repeat(
    runs: int,
    folder: Path,
    *,
    device: str = "auto",
    seconds: float | None = None,
    target: str = OP,
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None],
) -> RunSeries:
    """Runs `target` this many times, with records below `folder`. Ctrl-C ends the repetition, not the command."""
    series = RunSeries()
    try:
        for number in range(1, runs + 1):
            began = time.monotonic()
            try:
                series.records.append(_run_once(folder / f"run-{number:03}", device, seconds, target, env or {}))
                outcome = f"{time.monotonic() - began:.0f} s"
            except RunFailed as failure:
                outcome = str(failure)
            say(f"A/A run {number} of {runs}: {outcome}")
            if number >= _MOST_FAILURES and not series.records:
                break
    except KeyboardInterrupt:
        series.interrupted = True
    return series


def _run_once(folder: Path, device: str, seconds: float | None, target: str, env: Mapping[str, str]) -> Record:
    """The record of one run; RunFailed where it is not complete."""
    if folder.exists():
        raise UserError(f"{folder} already holds a run: name another folder")
    budget = "auto" if seconds is None else str(seconds)
    code, output = _start(program(_PROGRAM, str(folder), device, budget, target), env)
    if code == 2:
        raise UserError(output)
    if code != 0:
        raise RunFailed(f"failed: {(output.splitlines() or ['no reason given'])[-1]}")
    record = load(folder)
    for result in record["results"]:
        status, reason = verdict.status_of(result)
        if status != "ok":
            raise RunFailed(f"{status}: {reason}")
    return record


def _start(command: list[str], env: Mapping[str, str]) -> tuple[int, str]:
    """The exit code of a command and what it printed. It ends with this process, and on Ctrl-C."""
    with tempfile.NamedTemporaryFile(prefix="kernellab-aa-", suffix=".log") as log:
        child = Child(command, {**os.environ, **env}, output=Path(log.name))
        try:
            code = child.wait()
        finally:
            child.end()
        return code, Path(log.name).read_text(errors="replace").strip()
