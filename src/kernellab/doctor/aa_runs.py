"""Run the A/A op again and again, each time in a process of its own, and keep the records that are complete."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.record import verdict
from kernellab.record.reading import load

OP = "kernellab.doctor.aa_op:aa"
_START = (
    f"import sys; sys.path.append({str(PACKAGE.parent)!r})\n"
    "from kernellab.running.programs.aa_run import main; sys.exit(main())"
)
_HOPELESS = 3  # runs that fail one after the other, and none that did not


@dataclass
class Repeated:
    records: list[dict[str, Any]] = field(default_factory=list)
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
) -> Repeated:
    """So many runs, their records under `folder`. Ctrl-C ends the repeating; what was complete is given back."""
    found = Repeated()
    try:
        for number in range(1, runs + 1):
            began = time.monotonic()
            failure = _one(folder / f"run-{number:03}", device, seconds, target, env or {}, found)
            ended = failure or f"{time.monotonic() - began:.0f} s"
            say(f"A/A run {number} of {runs}: {ended}")
            if number >= _HOPELESS and not found.records:
                break
    except KeyboardInterrupt:
        found.interrupted = True
    return found


def _one(
    folder: Path, device: str, seconds: float | None, target: str, env: Mapping[str, str], found: Repeated
) -> str | None:
    """One run; its record is added where it is complete, otherwise the reason is returned."""
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
        return f"failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
    record: Any = load(folder)
    lost = [said for r in record["results"] if (said := verdict.status_of(r))[0] != "ok"]
    if lost:
        return f"{lost[0][0]}: {lost[0][1]}"
    found.records.append(record)
    return None
