"""The parts of an instruction of PTX or SASS. The parsers produce them; everything else reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

REGISTER_BYTES = 4
OperandKind = Literal["register", "immediate", "symbol", "address", "vector", "pair", "group", "other"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be parsed, and why."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Source:
    """The line of the author's program that an instruction was compiled from."""

    file: str
    line: int
    column: int = 0

    @property
    def name(self) -> str:
        """`triton.py:19`: the file's name without folders, and the line."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p1` or `@!%p1`: only threads where the predicate is true (or false) execute the instruction."""

    register: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand. `parts` are the operands inside a vector, an address, a pair `a|b` or a group `(a, b)`."""

    kind: OperandKind
    text: str
    name: str = ""  # of a register or symbol; for an address, of its first one
    value: int | float | None = None  # of an immediate; for an address, its offset in bytes
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
    line: int  # in the parsed text, from 1
    source: Source | None = None
    address: int | None = None  # SASS only
    scope: tuple[int, ...] = ()  # the { } blocks of PTX around it: labels are local to them

    @property
    def base(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])

    def has(self, *modifiers: str) -> bool:
        """Whether the opcode has at least one of these modifiers."""
        return not set(modifiers).isdisjoint(self.opcode.split(".")[1:])


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    line: int
    scope: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """A line for the assembler, not for the GPU: `.reg`, `.shared`, `.pragma`, or a brace."""

    name: str
    text: str
    line: int
    words: tuple[str, ...] = ()


Line = Instruction | Label | Directive


def instructions(body: list[Line]) -> list[Instruction]:
    return [line for line in body if isinstance(line, Instruction)]


def wide_registers(target: Operand, size_bytes: int) -> Iterator[str]:
    """Registers that a load of this size fills. SASS names only the first; the load also fills those after it."""
    for name in target.registers():
        yield name
        if name.startswith("R") and name[1:].isdigit():
            yield from (f"R{int(name[1:]) + i}" for i in range(1, size_bytes // REGISTER_BYTES))
