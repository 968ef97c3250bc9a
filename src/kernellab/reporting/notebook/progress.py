"""Progress in a notebook: one display, updated while the run goes on and removed when it ends."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Protocol

from kernellab.base.text import printable
from kernellab.declaration.documents import CaseJson
from kernellab.reporting.text import numbers

_PAUSE_S = 0.2  # between two updates: each is a message to the browser


class Display(Protocol):
    """A place on the page whose content can be replaced."""

    def update(self, html: str) -> None: ...


class NotebookProgress:
    """What is running, a bar, and the time so far."""

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display, self._clock = display, clock
        self._began, self._updated = clock(), -_PAUSE_S
        self._text, self._done, self._total = "starting", 0, 0
        self._ends: list[int] = []  # for each case, the number of steps done at its end
        self._seen: set[tuple[str, str]] = set()  # steps of the current case

    def say(self, text: str) -> None:
        self._text = text
        self._update(at_once=True)

    def begin_groups(self, steps: Sequence[int]) -> None:
        self._ends = list(itertools.accumulate(steps))
        self._done, self._total = 0, self._ends[-1] if self._ends else 0
        self._update()

    def show_phase(self, op: str, case: CaseJson, impl: str, phase: str) -> None:
        self._text = f"{op} {numbers.case_label(case)}: {phase} {impl}"
        if phase in ("check", "time") and (impl, phase) not in self._seen:
            self._seen.add((impl, phase))
            self._done = min(self._done + 1, self._total)
        self._update()

    def show_trial(self, op: str, impl: str, number: int, total: int) -> None:
        self._done, self._total = min(number, total), total
        trial = f"trial {number} of {total}" if number <= total else "searching"
        self._text = f"{op}: {impl}, {trial}"
        self._update()

    def finish_group(self) -> None:
        self._seen.clear()
        if self._ends:
            self._done = self._ends.pop(0)
        self._update()

    def stop(self) -> None:
        self._display.update("")

    def _update(self, *, at_once: bool = False) -> None:
        now = self._clock()
        if not at_once and now - self._updated < _PAUSE_S:
            return
        self._updated = now
        bar = f'<progress value="{self._done}" max="{self._total}"></progress> ' if self._total else ""
        self._display.update(f"<div>{bar}{escape(printable(self._text))} · {now - self._began:.0f} s</div>")


class _IpythonDisplay:
    def __init__(self) -> None:
        from IPython import display

        self._html = display.HTML
        self._handle = display.display(self._html(""), display_id=True)

    def update(self, html: str) -> None:
        if self._handle is not None:
            self._handle.update(self._html(html))


def notebook_progress() -> NotebookProgress | None:
    """Progress for the notebook that this process serves; None where it serves none."""
    return NotebookProgress(_IpythonDisplay()) if _serves_notebook() else None


def _serves_notebook() -> bool:
    """Whether this is the kernel of a notebook. IPython is not imported: a kernel has imported it already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
