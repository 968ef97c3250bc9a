"""Where in the program something happened: the user's line around a moment of a thread."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernellab.profiling import source
from kernellab.profiling.view import View
from kernellab.traces.trace import NONE, Column, Rows

_SIBLINGS = 6
_SHOWN = 60
_PROFILERS = r"^torch/profiler/|/torch/profiler/"


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
        at = f"{Path(self.file).name}:{self.line}" if self.exact else f"{self.function} ({self.file}:{self.line})"
        return f"{self.shown} at {at}" if self.shown else at

    @property
    def shown(self) -> str:
        """The line as it is written, if short; else the call, else as much of the line as fits."""
        if self.code and len(self.code) <= _SHOWN:
            return self.code
        if self.call:
            return f"{self.call[:_SHOWN]}()"
        return f"{self.code[:_SHOWN]}…" if self.code else ""


NOWHERE = Place(None, None, None, "")


class Places:
    def __init__(self, view: View) -> None:
        self.view = view
        self.nest = view.pythons
        about = view.trace.about.get("kernellab")
        script = about.get("script") if isinstance(about, dict) else None
        self._beside = [Path(script).parent] if isinstance(script, str) else []
        self._sources = source.Sources(self._beside)
        self._known: dict[tuple[object, ...], Place] = {}

    @functools.cached_property
    def _whose(self) -> Column:
        """Of each name, whose code it is."""
        used = np.unique(self.nest.name)
        whose = np.zeros(len(self.view.trace.names), dtype=np.int64)
        whose[used] = [self._of(self.view.trace.names[name]) for name in used.tolist()]
        if not (whose == 2).any():
            whose[whose == 1] = 2  # a program of installed packages alone: theirs is the code there is
        return whose

    def _of(self, name: str) -> int:
        """A file beside the script is the script's, though Python has a module of that name."""
        found = source.frame(name)
        if found and any((folder / found.file).is_file() for folder in self._beside):
            return 2
        return source.whose(name)

    @functools.cached_property
    def own(self) -> Rows:
        """The innermost frame of the user's code at or above each position."""
        return self.nest.nearest(self._whose[self.nest.name] == 2)

    @functools.cached_property
    def made(self) -> Rows:
        """The call that frame made, at or above each position; NONE for the frame itself."""
        own = self._whose[self.nest.name] == 2
        above = np.where(self.nest.parent >= 0, self.nest.parent, 0)
        first = (~own & (self.nest.parent >= 0) & own[above]) if len(self.nest) else own
        found = self.nest.nearest(first | own)
        return np.where((found >= 0) & ~own[found], found, NONE) if len(self.nest) else found

    @functools.cached_property
    def of_the_profiler(self) -> Rows:
        return self.nest.nearest(self.view.named(_PROFILERS)[self.nest.name])

    def around(self, lane: Column, at: Column) -> Rows:
        """The innermost Python call then, of this thread or, where it has none, of the program's main one."""
        found = self.nest.around(lane, at)
        bare = np.flatnonzero(found < 0)
        found[bare] = self.nest.around(np.full(len(bare), self.view.main, dtype=np.int64), at[bare])
        return found

    def at(self, positions: Iterable[int]) -> list[Place]:
        return [self._place(position) if position >= 0 else NOWHERE for position in positions]

    def calls(self, positions: Iterable[int]) -> list[Place]:
        """Where each of these calls was made, themselves the user's code or not."""
        found = []
        for position in positions:
            above = int(self.nest.parent[position])
            frame = int(self.own[above]) if above >= 0 else NONE
            found.append(self._placed(position, frame, position if frame == above else int(self.made[position])))
        return found

    def _place(self, position: int) -> Place:
        return self._placed(position, int(self.own[position]), int(self.made[position]))

    def _placed(self, position: int, frame: int, call: int) -> Place:
        if frame < 0:
            return Place(None, None, None, source.called(self._text(position)))
        before, after = self._neighbours(call) if call >= 0 else ([], [])
        name = source.called(self._text(call)) if call >= 0 else None
        key = (int(self.nest.name[frame]), name, tuple(before), tuple(after))
        if key not in self._known:
            self._known[key] = self._found(frame, name, before, after)
        return self._known[key]

    def _found(self, frame: int, name: str | None, before: list[str], after: list[str]) -> Place:
        written = source.frame(self._text(frame))
        if written is None:
            return NOWHERE
        function = self._sources.function(written)
        line = None
        if function is not None:
            line = function.heaviest if name is None else function.line(name, before, after)
        if function is None or line is None:
            return Place(written.file, written.line, written.function, name or "")
        return Place(written.file, line, written.function, name or "", function.text(line), exact=True)

    def _neighbours(self, call: int) -> tuple[list[str], list[str]]:
        """The calls its frame made before and after it, the nearest first."""
        children, where = self._children
        at = int(where[call])
        parent = self.nest.parent[call]
        low, high = max(at - _SIBLINGS, 0), at + 1 + _SIBLINGS
        before, after = children[low:at][::-1], children[at + 1 : high]
        sides = [side[self.nest.parent[side] == parent].tolist() for side in (before, after)]
        return [source.called(self._text(c)) for c in sides[0]], [source.called(self._text(c)) for c in sides[1]]

    @functools.cached_property
    def _children(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.nest.parent, kind="stable")
        where = np.empty(len(order), dtype=np.int64)
        where[order] = np.arange(len(order))
        return order, where

    def stack(self, position: int) -> list[str]:
        """From the outside in."""
        found = []
        while position >= 0:
            found.append(self._text(position))
            position = int(self.nest.parent[position])
        return found[::-1]

    def _text(self, position: int) -> str:
        return self.view.trace.names[int(self.nest.name[position])]
