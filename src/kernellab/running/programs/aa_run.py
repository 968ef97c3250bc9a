"""One run of the A/A op in a separate process: `main` with the arguments FOLDER DEVICE SECONDS TARGET.

It writes a record as any run does, but with checks and times only: ceilings and profiles would take longer.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.doctor.aa_summary import IMPLS
from kernellab.record.journal import begin
from kernellab.record.settings import NO_CASES, Settings
from kernellab.running.parent.progress import SilentProgress
from kernellab.running.parent.runner import Runner


def main() -> None:
    sys.exit(_run(*sys.argv[1:]))


def _run(folder: str, device: str, seconds: str, target: str) -> int:
    """Returns the exit code: 2 if the request is wrong, with one sentence on standard error."""
    settings = Settings(
        targets=[target],
        stages=["check", "time"],
        request=NO_CASES,
        impls=list(IMPLS),
        device=device,
        seconds=float(seconds) if seconds != "auto" else None,
        only_times=True,
    )
    journal = begin(Path(folder), settings.to_json(), settings.seed, ["klab", "doctor", "--aa"])
    try:
        Runner(settings, journal, SilentProgress()).run()  # the process that started this one reports progress
    except UserError as error:
        print(error.message, error.detail or "", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    journal.save()
    journal.close()
    return 0
