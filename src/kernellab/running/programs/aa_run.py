"""One run of the A/A op, in a process of its own; its arguments are FOLDER DEVICE SECONDS TARGET.

It leaves a record like any other run's, with nothing in it but checks and times: the rest would take longer.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.doctor.aa_summary import WAYS
from kernellab.record.journal import begin
from kernellab.record.settings import NO_CASES, Settings
from kernellab.running.parent.runner import Runner


class _Silence:
    """Hears what is going on and says nothing: the process that started this one shows the progress."""

    def say(self, text: str) -> None: ...
    def begin_groups(self, steps: object) -> None: ...
    def show_phase(self, op: str, case: object, impl: str, phase: str) -> None: ...
    def finish_group(self) -> None: ...
    def show_trial(self, op: str, impl: str, number: int, total: int) -> None: ...


def main() -> int:
    folder, device, seconds, target = sys.argv[1:]
    settings = Settings(
        targets=[target],
        stages=["check", "time"],
        request=NO_CASES,
        impls=list(WAYS),
        device=device,
        seconds=float(seconds) if seconds != "auto" else None,
        only_times=True,
    )
    journal = begin(Path(folder), settings.to_json(), settings.seed, ["klab", "doctor", "--aa"])
    try:
        Runner(settings, journal, _Silence()).run()
    except UserError as error:
        print(error.message, error.detail or "", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    journal.save()
    journal.close()
    return 0
