"""The interface by which a run reports its progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernellab.declaration.documents import CaseJson


class Progress(Protocol):
    """Shows how far a run is: on a terminal, in a log, or not at all."""

    def say(self, text: str) -> None:
        """Show in words what the run is doing."""

    def begin_groups(self, steps: Sequence[int]) -> None:
        """The groups of the plan, each as its number of steps."""

    def show_phase(self, op: str, case: CaseJson, impl: str, phase: str) -> None:
        """An implementation enters a phase at a case."""

    def finish_group(self) -> None:
        """The current group is done."""

    def show_trial(self, op: str, impl: str, number: int, total: int) -> None:
        """An implementation starts a trial of the battery; a number above the total is a trial of the search."""


class SilentProgress:
    """Shows nothing."""

    def say(self, text: str) -> None: ...
    def begin_groups(self, steps: object) -> None: ...
    def show_phase(self, op: str, case: object, impl: str, phase: str) -> None: ...
    def finish_group(self) -> None: ...
    def show_trial(self, op: str, impl: str, number: int, total: int) -> None: ...
