"""The user's source line around a moment of a thread."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from kernellab.findings.place import UNKNOWN_PLACE, Place
from kernellab.traces.trace import NONE, Column, Mask, Rows
from kernellab.traceview import source_lines as source
from kernellab.traceview.row_tree import take
from kernellab.traceview.source_lines import Owner
from kernellab.traceview.view import View

_MAX_NEIGHBOURS = 6  # calls before and after, by which a line is recognised
_MAX_DECORATORS = 5  # of one function
_PROFILERS = r"^torch/profiler/|/torch/profiler/"


Names = tuple[str, ...]


class Places:
    """Finds places. Positions refer to `tree`, the tree of Python calls."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.tree = view.python_calls
        metadata = view.trace.metadata.get("kernellab")
        script = metadata.get("script") if isinstance(metadata, dict) else None
        self._script_folders = [Path(script).parent] if isinstance(script, str) else []
        self._sources = source.Sources(self._script_folders)
        self._places: dict[tuple[int, Names, str, Names, Names], Place] = {}

    @functools.cached_property
    def _is_users(self) -> Mask:
        """For each position, whether it is a frame of the user's code."""
        used = np.unique(self.tree.name)
        owner = np.zeros(len(self.view.trace.names), dtype=np.int64)
        owner[used] = [self._owner(self.view.trace.names[name]) for name in used.tolist()]
        if not (owner == Owner.USER).any():
            # If a program consists of installed packages only, their code is shown.
            owner[owner == Owner.PACKAGE] = Owner.USER
        return np.asarray(owner[self.tree.name] == Owner.USER)

    def _owner(self, name: str) -> Owner:
        """The owner of a frame. A file beside the script is the user's, even if Python has a module of that name."""
        frame = source.parse_frame(name)
        if frame and any(source.is_file(folder / frame.file) for folder in self._script_folders):
            return Owner.USER
        return source.owner(name)

    @functools.cached_property
    def user_frame(self) -> Rows:
        """The innermost frame of the user's code at or above each position."""
        return self.tree.nearest(self._is_users)

    @functools.cached_property
    def user_call(self) -> Rows:
        """The call that the user's frame made, at or above each position; NONE for the frame itself."""
        tree, users = self.tree, self._is_users
        above = np.where(tree.parent >= 0, tree.parent, 0)
        first = (~users & (tree.parent >= 0) & users[above]) if len(tree) else users
        nearest = tree.nearest(first | users)
        return np.where((nearest >= 0) & ~users[nearest], nearest, NONE) if len(tree) else nearest

    @functools.cached_property
    def profiler_frame(self) -> Rows:
        """The innermost frame of torch's profiler at or above each position."""
        return self.tree.nearest(self.view.names_matching(_PROFILERS)[self.tree.name])

    def python_at(self, lane: Column, at: Column) -> Rows:
        """The innermost Python call open on a thread at a moment; if the thread has none, on the main thread."""
        return self.view.around_or_main(self.tree, lane, at)

    def locate_rows(self, rows: Rows) -> list[Place]:
        """Where in the program rows of threads (operators, CUDA calls) ran."""
        trace, operators = self.view.trace, self.view.operators
        positions = self.python_at(trace.lane[rows], trace.begin[rows])
        outer = take(operators.outermost, operators.around(trace.lane[rows], trace.begin[rows]))
        began = np.where(outer >= 0, take(operators.begin, outer), trace.begin[rows])
        names = take(operators.name, outer).tolist()
        places = []
        for position, moment, name in zip(positions.tolist(), began.tolist(), names, strict=True):
            operator = trace.names[name] if name >= 0 else ""
            places.append(self.locate_moment(position, moment, operator) if position >= 0 else UNKNOWN_PLACE)
        return places

    def locate_moment(self, position: int, moment: int, operator: str = "") -> Place:
        """The place of a moment inside a Python call."""
        frame, call = int(self.user_frame[position]), int(self.user_call[position])
        return self._locate(position, frame, call, moment, operator)

    def locate_calls(self, positions: Iterable[int]) -> list[Place]:
        """Where each of these calls was made, whether or not they are the user's code themselves."""
        places = []
        for position in positions:
            above, moment = int(self.tree.parent[position]), int(self.tree.begin[position])
            frame = int(self.user_frame[above]) if above >= 0 else NONE
            call = position if frame == above else int(self.user_call[position])
            places.append(self._locate(position, frame, call, moment, ""))
        return places

    def _locate(self, position: int, frame: int, call: int, moment: int, operator: str) -> Place:
        if frame < 0:
            return Place(None, None, None, source.called_as(self._name(position)))
        names: Names = ()
        if call >= 0 and not source.is_arithmetic(self._name(call)):
            names = self._call_names(call)
        before, after = self._neighbours(frame, call, moment)
        key = (int(self.tree.name[frame]), names, "" if names else operator, before, after)
        if key not in self._places:
            self._places[key] = self._find(frame, names, operator, before, after)
        return self._places[key]

    def _call_names(self, call: int) -> Names:
        """The names a call may be written as: a decorated function is called by its own name, not its wrapper's."""
        names = [source.called_as(self._name(call))]
        while source.is_decorator(self._name(call)) and len(names) < _MAX_DECORATORS:
            children, parents = self._children
            first, past = np.searchsorted(parents, [call, call + 1]).tolist()
            if first == past:
                break
            inner = children[first:past]
            call = int(inner[self.tree.duration[inner].argmax()])
            names.append(source.called_as(self._name(call)))
        return tuple(names)

    def _find(self, frame: int, names: Names, operator: str, before: Names, after: Names) -> Place:
        parsed = source.parse_frame(self._name(frame))
        if parsed is None:
            return UNKNOWN_PLACE
        call = operator.removeprefix("aten::")
        if names:
            call = next((name for name in names if name not in source.DECORATORS), names[0])
        function = self._sources.function(parsed)
        if function is None:
            return Place(parsed.file, parsed.line, parsed.function, call)
        if not names:
            written_as = source.OPERATOR_CALLS.get(operator, ())
            line = function.find_line(written_as, before, after) or function.find_statement(before, after, operator)
        else:
            call = next((name for name in names if function.calls(name)), call)
            line = function.find_line((call,), before, after) or 0
        if not line:
            return Place(parsed.file, parsed.line, parsed.function, call)
        return Place(parsed.file, line, parsed.function, call, function.text(line), exact=True)

    def _neighbours(self, frame: int, call: int, moment: int) -> tuple[Names, Names]:
        """The calls a frame made before and after one of its calls, or before and after a moment; nearest first."""
        children, parents = self._children
        first, past = np.searchsorted(parents, [frame, frame + 1]).tolist()
        at = first + int(np.searchsorted(self.tree.begin[children[first:past]], moment))
        earlier = children[max(at - _MAX_NEIGHBOURS, first) : at][::-1]
        later = children[at : min(at + _MAX_NEIGHBOURS + 1, past)]
        sides = ([int(child) for child in side if child != call] for side in (earlier, later))
        before, after = (
            tuple(source.called_as(self._name(child)) for child in side[:_MAX_NEIGHBOURS]) for side in sides
        )
        return before, after

    @functools.cached_property
    def _children(self) -> tuple[Rows, Rows]:
        """All positions sorted by parent, then time; and their parents."""
        order = np.lexsort((self.tree.begin, self.tree.parent))
        return order, self.tree.parent[order]

    def stack(self, position: int) -> list[str]:
        """The names of the calls around a position, outermost first."""
        names = []
        while position >= 0:
            names.append(self._name(position))
            position = int(self.tree.parent[position])
        return names[::-1]

    def _name(self, position: int) -> str:
        return self.view.trace.names[int(self.tree.name[position])]
