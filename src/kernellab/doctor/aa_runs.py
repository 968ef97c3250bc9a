"""Repeats the A/A op, each run in a process of its own, and keeps the records that are complete."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.record import verdict
from kernellab.record.reading import load
from kernellab.record.schema import Record

OP = "kernellab.doctor.aa_op:aa"
_START = (
    f"import sys; sys.path.append({str(PACKAGE.parent)!r})\n"
    "from kernellab.running.programs.aa_run import main; sys.exit(main())"
)
_MOST_FAILURES = 3  # in a row from the start: then no run will succeed


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
    done = subprocess.run(
        # This kernellab, also where it runs from source; the working directory does not come first on the path.
        [sys.executable, "-P", "-c", _START, str(folder), device, budget, target],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )
    if done.returncode == 2:
        raise UserError(done.stderr.strip())
    if done.returncode != 0:
        raise RunFailed(f"failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    record = load(folder)
    for result in record["results"]:
        status, reason = verdict.status_of(result)
        if status != "ok":
            raise RunFailed(f"{status}: {reason}")
    return record
