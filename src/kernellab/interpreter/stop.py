"""Where to stop in a kernel. Imports nothing: it is read before triton is imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """A line, of a file or else of the first kernel's; a program of the grid, or else the first that gets there."""

    file: str = ""
    line: int | None = None
    program: tuple[int, ...] | None = None

    @property
    def label(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place} in program {','.join(map(str, self.program))}" if self.program else place
