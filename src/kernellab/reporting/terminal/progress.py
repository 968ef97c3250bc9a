"""Progress on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from kernellab.declaration.documents import CaseJson
from kernellab.reporting.text import numbers
from kernellab.reporting.text.console import console

_STAGES = {
    "check": "checking",
    "gradients": "checking the gradients of",
    "build": "building",
    "time": "timing",
    "energy": "measuring the energy of",
    "profile": "profiling",
}


class LiveProgress:
    """The op, case, implementation and stage that is running, and the time left."""

    def __init__(self, out: Console) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(compact=True),
            console=out,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._ends: list[int] = []  # for each case, the number of steps done at its end
        self._seen: set[tuple[str, str]] = set()  # steps of the current case
        self._bar.start()

    def say(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def begin_groups(self, steps: Sequence[int]) -> None:
        self._ends = list(itertools.accumulate(steps))
        self._bar.update(self._task, total=max(1, self._ends[-1]) if self._ends else 1, completed=0)

    def show_phase(self, op: str, case: CaseJson, impl: str, phase: str) -> None:
        stage = _STAGES.get(phase, phase)
        description = f"{op} {numbers.case_label(case)}: {stage} {impl}"
        new = phase in ("check", "time") and (impl, phase) not in self._seen
        self._seen.add((impl, phase))
        self._bar.update(self._task, description=description, advance=1 if new else 0)

    def show_trial(self, op: str, impl: str, number: int, total: int) -> None:
        description = f"{op}: {impl}, trial {number} of {total}" if number <= total else f"{op}: {impl}, searching"
        self._bar.update(self._task, description=description, completed=min(number, total), total=total)

    def finish_group(self) -> None:
        self._seen.clear()
        self._bar.update(self._task, completed=self._ends.pop(0))

    def stop(self) -> None:
        self._bar.stop()


class PlainProgress:
    """One line per finished case, for logs."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._total = self._done = 0
        self._last = ""

    def say(self, text: str) -> None:
        self._print(text)

    def begin_groups(self, steps: Sequence[int]) -> None:
        self._total = len(steps)

    def show_phase(self, op: str, case: CaseJson, impl: str, phase: str) -> None:
        self._last = f"{op} {numbers.case_label(case)}"

    def show_trial(self, op: str, impl: str, number: int, total: int) -> None:
        pass

    def finish_group(self) -> None:
        self._done += 1
        self._print(f"[{self._done}/{self._total}] {self._last}")

    def stop(self) -> None:
        pass

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._started:6.1f} s  {text}", file=sys.stderr, flush=True)


def stderr_progress() -> LiveProgress | PlainProgress:
    """A live line where standard error is a terminal, lines for a log where not."""
    return LiveProgress(console(stderr=True)) if sys.stderr.isatty() else PlainProgress()
