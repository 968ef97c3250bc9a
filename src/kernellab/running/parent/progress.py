"""What a run tells of itself while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernellab.declaration.documents import CaseJson


class Progress(Protocol):
    """Hears what is going on; the terminal draws it."""

    def say(self, text: str) -> None: ...
    def planned(self, steps: Sequence[int]) -> None: ...
    def doing(self, op: str, case: CaseJson, impl: str, phase: str) -> None: ...
    def finished_group(self) -> None: ...
    def trying(self, op: str, impl: str, number: int, of: int) -> None: ...
