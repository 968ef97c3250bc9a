"""Links lines of a kernel's source with the lines of its PTX and its SASS that were compiled from them.

The links come from the line tables that the compilers write: `.loc` in PTX, `//## File` in a disassembly. A line that
was compiled from a function of a library belongs to the line of the shown source that called the function.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Instruction, Label, Source, instructions
from kernellab.machinecode.ptx import PtxModule, parse_ptx
from kernellab.machinecode.sass import parse_sass

Place = tuple[str, int]  # a file and a line in it

_LOC = re.compile(r"\s*\.loc\s+(\d{1,9})\s+(\d{1,9})\s+\d+(?:.*?inlined_at\s+(\d{1,9})\s+(\d{1,9}))?")
# Triton says in a comment by which lines a function was called: "// a.py:17:27 @[ b.py:19:40 @[ c.py:12:26 ] ]".
_CALLED_AT = re.compile(r"@\[ ([^\s:]+):(\d{1,9}):\d+")
# Lines of PTX that are about other lines, or labels that no instruction branches to.
_UNSHOWN = re.compile(r"\s*(?:$|//|\.loc\s|\.file\s|\$L__(?:tmp|func_|info_string)\w*:\s*$)")
_MOST_CALLERS = 64  # looked at to find the shown line that a line of a library belongs to


@dataclass(frozen=True)
class SourcePart:
    """A part of a text of sources: it begins at line `text_line` of the text, and at `first_line` of its own file."""

    file: str
    first_line: int
    text_line: int


@dataclass
class LinkedText:
    """The lines that are worth reading of one text, and what numbers them.

    `groups` are the groups that each line belongs to: lines of one group were compiled from one line of source. `outer`
    are the groups of the lines of source that called the function which a line of code is from.
    """

    lines: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    outer: list[list[int]] = field(default_factory=list)

    def add(self, line: str, number: str, groups: Iterable[int] = (), outer: Iterable[int] = ()) -> None:
        self.lines.append(line)
        self.numbers.append(number)
        self.groups.append(list(groups))
        self.outer.append(list(outer))


@dataclass(frozen=True)
class LinkedCode:
    """Three texts of one kernel. Every group has lines in at least two of them."""

    source: LinkedText
    ptx: LinkedText
    sass: LinkedText


def link_code(source: str, parts: Sequence[SourcePart], ptx: str, sass: str) -> LinkedCode:
    """Link the texts. Any of them may be empty. Lines that no compiler linked have no group."""
    lines = source.split("\n") if source else []
    places = _places(lines, parts)
    module = parse_ptx(ptx)
    callers = _Callers(module, set(places.values()))
    linked = LinkedCode(LinkedText(), LinkedText(), LinkedText())
    numbered: dict[Place, int] = {}

    def number_groups(found: Iterable[Place]) -> list[int]:
        return [numbered.setdefault(place, len(numbered)) for place in found]

    def add_code(text: LinkedText, line: str, number: str, chain: Sequence[Place]) -> None:
        own, outer = callers.resolve(chain)
        text.add(line, number, number_groups(own), number_groups(outer))

    for at, line in enumerate(lines, 1):
        place = places.get(at)
        number = str(place[1] if place else at) if line.strip() else ""
        linked.source.add(line.expandtabs(4), number, number_groups([place] if place else ()))
    for line_number, line, chain in _ptx_lines(module, callers.chains):
        add_code(linked.ptx, line, str(line_number), chain)
    for line, address, chain in _sass_lines(sass):
        add_code(linked.sass, line, address, chain)
    _drop_single(linked)
    return linked


def _places(lines: Sequence[str], parts: Sequence[SourcePart]) -> dict[int, Place]:
    """The file and line of every line of the text of sources, by its number there."""
    ordered = sorted(parts, key=lambda part: part.text_line)
    ends = [*(part.text_line for part in ordered), len(lines) + 1][1:]
    return {
        number: (_normalise(part.file), part.first_line + number - part.text_line)
        for part, end in zip(ordered, ends, strict=True)
        for number in range(max(part.text_line, 1), min(end, len(lines) + 1))
    }


class _Callers:
    """Which lines called the functions whose lines the compiler inlined, as the PTX says it."""

    def __init__(self, module: PtxModule, shown: set[Place]) -> None:
        self.files = {number: _normalise(name) for number, name in module.files.items()}
        self.shown = shown
        self._by_name: dict[str, list[str]] = {}
        for file in self.files.values():
            self._by_name.setdefault(file.rpartition("/")[2], []).append(file)
        self._callers: dict[Place, set[Place]] = {}
        self._resolved: dict[tuple[Place, ...], tuple[list[Place], list[Place]]] = {}
        self.chains: dict[int, list[Place]] = {}  # by line of PTX, for each .loc
        for number, line in enumerate(module.text.split("\n"), 1):
            if match := _LOC.match(line):
                chain = self._chain(match, line)
                self.chains[number] = chain
                for called, caller in itertools.pairwise(chain):
                    self._callers.setdefault(called, set()).add(caller)

    def resolve(self, chain: Sequence[Place]) -> tuple[list[Place], list[Place]]:
        """The innermost lines of the shown source that a line of code belongs to, and the shown lines that call them.

        `chain` is its own place and those of its callers, as far as they are known. A line of code without any shown
        line belongs to its own place.
        """
        key = tuple(chain)
        if key not in self._resolved:
            self._resolved[key] = self._resolve(chain)
        return self._resolved[key]

    def _resolve(self, chain: Sequence[Place]) -> tuple[list[Place], list[Place]]:
        inner = next((at for at, place in enumerate(chain) if place in self.shown), None)
        if inner is not None:
            own, above = [chain[inner]], chain[inner + 1 :]
            return own, self._shown(dict.fromkeys([*above, *self._above(chain[-1:])]), own)
        callers = self._above(chain[-1:])
        inside = [place for place, via in callers.items() if place in self.shown and via not in self.shown]
        own = inside or list(chain[:1])
        return own, self._shown(callers, own)

    def _shown(self, places: Iterable[Place], own: Sequence[Place]) -> list[Place]:
        return [place for place in places if place in self.shown and place not in own]

    def _above(self, places: Sequence[Place]) -> dict[Place, Place]:
        """The callers of some places, their callers, and so on, each with the place that it was found from."""
        found: dict[Place, Place] = {}
        waiting = list(places)
        while waiting and len(found) < _MOST_CALLERS:
            place = waiting.pop(0)
            for caller in sorted(self._callers.get(place, set()) - found.keys() - set(places)):
                found[caller] = place
                waiting.append(caller)
        return found

    def _chain(self, match: re.Match[str], line: str) -> list[Place]:
        chain = [(self._file(match[1]), int(match[2]))]
        if match[3]:
            chain.append((self._file(match[3]), int(match[4])))
        chain += [(self._file_named(name, int(number)), int(number)) for name, number in _CALLED_AT.findall(line)]
        return [place for place in chain if place[1]]

    def _file(self, number: str) -> str:
        return self.files.get(int(number), f"file {number}")

    def _file_named(self, name: str, line: int) -> str:
        """Of files with this name, one where the line is shown."""
        candidates = self._by_name.get(name, [name])
        return next((file for file in candidates if (file, line) in self.shown), candidates[0])


def _ptx_lines(module: PtxModule, chains: Mapping[int, list[Place]]) -> Iterator[tuple[int, str, list[Place]]]:
    """The lines worth reading, with their numbers, and the places of those that are instructions."""
    code = {line.line for function in module.functions for line in instructions(function.body)}
    chain: list[Place] = []
    in_section = False  # debug data: the rest of the text
    for number, line in enumerate(module.text.split("\n"), 1):
        chain = chains.get(number, chain)
        in_section = in_section or line.lstrip().startswith(".section")
        if not in_section and not _UNSHOWN.match(line):
            yield number, line.expandtabs(4).rstrip(), chain if number in code else []


def _sass_lines(sass: str) -> Iterator[tuple[str, str, list[Place]]]:
    """Instructions with their addresses and places, and labels."""
    for function in parse_sass(sass).functions:
        for line in function.body:
            if isinstance(line, Instruction):
                yield f"    {line.text}", f"{line.address or 0:04x}", _own_place(line.source)
            elif isinstance(line, Label):
                yield f"{line.name}:", "", []


def _own_place(source: Source | None) -> list[Place]:
    return [(_normalise(source.file), source.line)] if source is not None and source.line else []


def _normalise(file: str) -> str:
    """One spelling for a file: NVRTC's lines name `ops/softmax/../rows.cuh`."""
    return os.path.normpath(file)


def _drop_single(code: LinkedCode) -> None:
    """Drop groups that are in one text only: there is nothing to link."""
    texts = (code.source, code.ptx, code.sass)
    present = [{group for groups in (*text.groups, *text.outer) for group in groups} for text in texts]
    kept = {group for groups in present for group in groups if sum(group in other for other in present) > 1}
    for text in texts:
        text.groups = [[group for group in groups if group in kept] for groups in text.groups]
        text.outer = [[group for group in groups if group in kept] for groups in text.outer]
