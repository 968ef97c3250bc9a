"""Where in the program something happened: the user's line around a moment of a thread."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernellab.traces.trace import NONE, Column, Rows
from kernellab.traceview import source_lines as source
from kernellab.traceview.row_tree import take
from kernellab.traceview.view import View

_SIBLINGS = 6
_SHOWN = 60
_WRAPPED = 5  # decorators of one function
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


Names = tuple[str, ...]
UNKNOWN_PLACE = Place(None, None, None, "")


class Places:
    def __init__(self, view: View) -> None:
        self.view = view
        self.nest = view.pythons
        about = view.trace.metadata.get("kernellab")
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
        if found and any(source.is_file(folder / found.file) for folder in self._beside):
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

    def of(self, rows: Rows) -> list[Place]:
        """Where in the program rows of threads were: operators, calls of CUDA."""
        trace, nest = self.view.trace, self.view.operators
        positions = self.around(trace.lane[rows], trace.begin[rows])
        operators = take(nest.outermost, nest.around(trace.lane[rows], trace.begin[rows]))
        began = np.where(operators >= 0, take(nest.begin, operators), trace.begin[rows])
        names = take(nest.name, operators).tolist()
        found = []
        for position, moment, name in zip(positions.tolist(), began.tolist(), names, strict=True):
            operator = trace.names[name] if name >= 0 else ""
            found.append(self.at(position, moment, operator) if position >= 0 else UNKNOWN_PLACE)
        return found

    def at(self, position: int, moment: int, operator: str = "") -> Place:
        """Of a Python call and a moment in it."""
        return self._placed(position, int(self.own[position]), int(self.made[position]), moment, operator)

    def calls(self, positions: Iterable[int]) -> list[Place]:
        """Where each of these calls was made, themselves the user's code or not."""
        found = []
        for position in positions:
            above, moment = int(self.nest.parent[position]), int(self.nest.begin[position])
            frame = int(self.own[above]) if above >= 0 else NONE
            call = position if frame == above else int(self.made[position])
            found.append(self._placed(position, frame, call, moment, ""))
        return found

    def _placed(self, position: int, frame: int, call: int, moment: int, operator: str) -> Place:
        if frame < 0:
            return Place(None, None, None, source.called(self._text(position)))
        names: Names = ()
        if call >= 0 and not source.is_arithmetic(self._text(call)):
            names = self._names(call)
        before, after = self._neighbours(frame, call, moment)
        key = (int(self.nest.name[frame]), names, "" if names else operator, before, after)
        if key not in self._known:
            self._known[key] = self._found(frame, names, operator, before, after)
        return self._known[key]

    def _names(self, call: int) -> Names:
        """What a call may be written as: a decorated function is called by its own name, not its wrapper's."""
        found = [source.called(self._text(call))]
        while source.wraps(self._text(call)) and len(found) < _WRAPPED:
            children, parents = self._children
            first, past = np.searchsorted(parents, [call, call + 1]).tolist()
            if first == past:
                break
            inner = children[first:past]
            call = int(inner[self.nest.duration[inner].argmax()])
            found.append(source.called(self._text(call)))
        return tuple(found)

    def _found(self, frame: int, names: Names, operator: str, before: Names, after: Names) -> Place:
        written = source.frame(self._text(frame))
        if written is None:
            return UNKNOWN_PLACE
        call = operator.removeprefix("aten::")
        if names:
            call = next((name for name in names if name not in source.DECORATORS), names[0])
        function = self._sources.function(written)
        if function is None:
            return Place(written.file, written.line, written.function, call)
        if not names:
            written_as = source.AS_WRITTEN.get(operator, ())
            line = function.line(written_as, before, after) or function.statement(before, after, operator)
        else:
            call = next((name for name in names if function.calls(name)), call)
            line = function.line((call,), before, after) or 0
        if not line:
            return Place(written.file, written.line, written.function, call)
        return Place(written.file, line, written.function, call, function.text(line), exact=True)

    def _neighbours(self, frame: int, call: int, moment: int) -> tuple[Names, Names]:
        """The calls a frame made before and after one of its own, or a moment; the nearest first."""
        children, parents = self._children
        first, past = np.searchsorted(parents, [frame, frame + 1]).tolist()
        at = first + int(np.searchsorted(self.nest.begin[children[first:past]], moment))
        before, after = children[max(at - _SIBLINGS, first) : at][::-1], children[at : min(at + _SIBLINGS + 1, past)]
        sides = ([int(c) for c in side if c != call] for side in (before, after))
        one, other = (tuple(source.called(self._text(c)) for c in side[:_SIBLINGS]) for side in sides)
        return one, other

    @functools.cached_property
    def _children(self) -> tuple[Rows, Rows]:
        """All positions by what is around them, in the order of time, and what that is."""
        order = np.lexsort((self.nest.begin, self.nest.parent))
        return order, self.nest.parent[order]

    def stack(self, position: int) -> list[str]:
        """From the outside in."""
        found = []
        while position >= 0:
            found.append(self._text(position))
            position = int(self.nest.parent[position])
        return found[::-1]

    def _text(self, position: int) -> str:
        return self.view.trace.names[int(self.nest.name[position])]
