"""A place in a program's source: what a finding points at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SHOWN = 60


@dataclass(frozen=True)
class Place:
    """`exact`: the line was found in the source; otherwise it is the line the function begins on."""

    file: str | None
    line: int | None
    function: str | None
    call: str
    code: str = ""
    exact: bool = False

    def __str__(self) -> str:
        if self.file is None:
            return self.call[:_SHOWN] or "a place not recorded"
        if self.exact:
            at = f"{Path(self.file).name}:{self.line}"
            return f"{self.shown} at {at}" if self.shown else at
        # The line is the function's first: not where it happened.
        within = f"{self.function}() ({self.file}:{self.line})" if str(self.function).isidentifier() else self.file
        return f"{self.shown} in {within}" if self.shown else within

    @property
    def shown(self) -> str:
        """The line as it is written, if short; else the call, else as much of the line as fits.

        Nobody writes the call of `__next__`: a loop is told by its line.
        """
        if self.code and len(self.code) <= _SHOWN:
            return self.code
        if self.call and not (self.code and self.call.startswith("__")):
            return f"{self.call[:_SHOWN]}()"
        return f"{self.code[:_SHOWN]}…" if self.code else ""


NOWHERE = Place(None, None, None, "")
