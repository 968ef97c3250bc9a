"""Two kernels side by side: facts that differ, the change of the opcode mix, and their code aligned.

Registers are compared by what was put into them, not by their numbers: a value that moved to another register
is no difference, a value taken from elsewhere is.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from kernellab.codeanalysis.facts import Facts
from kernellab.machinecode.instructions import Instruction, Operand

_SIDE_BY_SIDE = (
    "name",
    "arch",
    "registers",
    "spill_bytes",
    "stack_bytes",
    "shared_bytes",
    "barriers",
    "threads",
    "widest_global_bytes",
    "narrowest_global_bytes",
    "predicated",
    "uses",
)
# Above this many pairs to compare, repeated instructions no longer serve as anchors: it would take minutes.
_MOST_PAIRS = 9_000_000


@dataclass(frozen=True)
class FactPair:
    name: str
    left: Any
    right: Any

    @property
    def differs(self) -> bool:
        return bool(self.left != self.right)


@dataclass(frozen=True)
class CountPair:
    """How often a class or an opcode occurs on each side."""

    name: str
    left: int
    right: int


@dataclass(frozen=True)
class Row:
    """A pair of aligned instructions, or one that has no partner.

    `values` marks the same instruction on other values: a register holds what it does not hold on the other side.
    """

    kind: Literal["same", "values", "changed", "left", "right"]
    left: Instruction | None
    right: Instruction | None


@dataclass(frozen=True)
class Diff:
    facts: list[FactPair]
    classes: list[CountPair]
    opcodes: list[CountPair]  # only those that differ, the largest change first
    rows: list[Row]

    @property
    def same(self) -> bool:
        return all(row.kind == "same" for row in self.rows)


def diff(left: Facts, right: Facts, left_code: Sequence[Instruction], right_code: Sequence[Instruction]) -> Diff:
    """Compare two kernels: their facts, and their instructions, which must both be PTX or both SASS."""
    known = {one.name for one in fields(Facts)}
    pairs = [FactPair(name, getattr(left, name), getattr(right, name)) for name in _SIDE_BY_SIDE if name in known]
    pairs.append(FactPair("instructions", left.size, right.size))
    classes = _counted(Counter(left.instructions), Counter(right.instructions))
    opcodes = _counted(Counter(i.opcode for i in left_code), Counter(i.opcode for i in right_code))
    changed = [pair for pair in opcodes if pair.left != pair.right]
    changed.sort(key=lambda pair: -abs(pair.left - pair.right))
    return Diff(pairs, classes, changed, align(left_code, right_code))


def _counted(left: Counter[str], right: Counter[str]) -> list[CountPair]:
    return [CountPair(name, left[name], right[name]) for name in dict.fromkeys([*left, *right])]


def align(left: Sequence[Instruction], right: Sequence[Instruction]) -> list[Row]:
    """Pair the instructions of two kernels by what they are, then tell where they work on other values."""
    a, b = [_shape(line) for line in left], [_shape(line) for line in right]
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=len(a) * len(b) > _MOST_PAIRS)
    values = _Values()
    rows: list[Row] = []
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            for one, other in zip(left[a0:a1], right[b0:b1], strict=True):
                rows.append(Row("same" if values.agree(one, other) else "values", one, other))
            continue
        common = min(a1 - a0, b1 - b0)
        for one, other in zip(left[a0 : a0 + common], right[b0 : b0 + common], strict=True):
            if one.base == other.base:
                values.agree(one, other)
                rows.append(Row("changed", one, other))
            else:
                rows += [Row("left", one, None), Row("right", None, other)]
        rows += [Row("left", one, None) for one in left[a0 + common : a1]]
        rows += [Row("right", None, other) for other in right[b0 + common : b1]]
    return rows


def _shape(line: Instruction) -> str:
    """An instruction with its registers and labels left open: what it is, not what it works on."""
    guard = "" if line.guard is None else "@!" if line.guard.negated else "@"
    return f"{guard}{line.opcode} {','.join(map(_open, line.operands))}"


def _open(operand: Operand) -> str:
    sign = "-" if operand.negated else ""
    if operand.kind == "register":
        # %r1 and %rd1, R1 and P1 are of different kinds; RZ, PT and %tid.x always mean the same.
        digits = operand.name.rstrip("0123456789")
        return sign + (operand.name if digits == operand.name else digits)
    if operand.kind == "immediate":
        return operand.text
    if operand.parts:
        return f"{operand.kind}({','.join(map(_open, operand.parts))};{operand.value or 0})"
    return f"{sign}{operand.kind}"


class _Values:
    """Which register of the right holds what a register of the left holds, as far as aligned code has told."""

    def __init__(self) -> None:
        self._right_of: dict[str, str] = {}

    def agree(self, one: Instruction, other: Instruction) -> bool:
        sets = bool(one.operands) and one.operands[0].kind != "address"
        reads = [name for o in one.operands[1 if sets else 0 :] for name in o.registers()]
        others = [name for o in other.operands[1 if sets else 0 :] for name in o.registers()]
        if one.guard is not None and other.guard is not None:
            reads.append(one.guard.register)
            others.append(other.guard.register)
        same = all(self._right_of.setdefault(a, b) == b for a, b in zip(reads, others, strict=False))
        if sets:
            for a, b in zip(one.operands[0].registers(), other.operands[0].registers(), strict=False):
                self._right_of[a] = b
        return same
