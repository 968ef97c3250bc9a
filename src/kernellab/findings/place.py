"""A place in a program's source that a finding points at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_MAX_SNIPPET = 60  # characters of a line or a call that are shown


@dataclass(frozen=True)
class Place:
    """`exact`: the line was found in the source. Otherwise `line` is the first line of the function."""

    file: str | None
    line: int | None
    function: str | None
    call: str
    code: str = ""
    exact: bool = False

    def __str__(self) -> str:
        if self.file is None:
            return self.call[:_MAX_SNIPPET] or "an unrecorded place"
        if self.exact:
            at = f"{Path(self.file).name}:{self.line}"
            return f"{self.snippet} at {at}" if self.snippet else at
        within = f"{self.function}() ({self.file}:{self.line})" if str(self.function).isidentifier() else self.file
        return f"{self.snippet} in {within}" if self.snippet else within

    @property
    def snippet(self) -> str:
        """The source line if it is short, else the call, else the beginning of the line.

        A call such as `__next__` is not written in the source, so a loop is shown by its line.
        """
        if self.code and len(self.code) <= _MAX_SNIPPET:
            return self.code
        if self.call and not (self.code and self.call.startswith("__")):
            return f"{self.call[:_MAX_SNIPPET]}()"
        return f"{self.code[:_MAX_SNIPPET]}…" if self.code else ""


UNKNOWN_PLACE = Place(None, None, None, "")
