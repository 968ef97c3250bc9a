"""One instruction of PTX or SASS, taken apart; the parsers fill these in and everything else reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["register", "immediate", "symbol", "address", "vector", "pair", "group", "other"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A piece of text that could not be read, and why."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Source:
    """The line of the author's program an instruction comes from."""

    file: str
    line: int
    column: int = 0

    @property
    def name(self) -> str:
        """`triton.py:19`, as people write it."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p1` or `@!%p1`: the instruction takes effect only in threads where the predicate is true (or false)."""

    register: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: `parts` are what a vector, an address, a pair `a|b` or a group `(a, b)` is made of."""

    kind: Kind
    text: str
    name: str = ""  # of a register or symbol, or of an address's first one
    value: int | float | None = None  # of an immediate, or an address's offset in bytes
    negated: bool = False
    parts: tuple[Operand, ...] = ()

    def registers(self) -> Iterator[str]:
        if self.kind == "register":
            yield self.name
        for part in self.parts:
            yield from part.registers()


@dataclass(frozen=True, slots=True)
class Instruction:
    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    text: str
    line: int  # in the text that was read, from 1
    source: Source | None = None
    address: int | None = None  # in SASS
    scope: tuple[int, ...] = ()  # the { } blocks of PTX it stands in: labels are local to them

    @property
    def base(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    def has(self, *modifiers: str) -> bool:
        """Whether it carries one of these modifiers."""
        return not set(modifiers).isdisjoint(self.opcode.split(".")[1:])


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    line: int
    scope: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """A line that is for the assembler, not for the GPU: `.reg`, `.shared`, `.pragma`; or a brace."""

    name: str
    text: str
    line: int
    words: tuple[str, ...] = ()


Line = Instruction | Label | Directive


def instructions(body: list[Line]) -> list[Instruction]:
    return [line for line in body if isinstance(line, Instruction)]
