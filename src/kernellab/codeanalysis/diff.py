"""Compares two kernels: their facts, their opcode mix, and their code aligned line by line.

Registers are compared by the value they hold, not by their numbers. A value in another register is no difference; an
operand with another value is one.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernellab.codeanalysis.facts import KernelFacts
from kernellab.machinecode.instructions import Instruction, Operand

# Above this many pairs of instructions, difflib may ignore frequent instructions: otherwise it would take minutes.
_MAX_EXACT_PAIRS = 9_000_000

FactValue = str | int | Sequence[int] | Sequence[str] | None


@dataclass(frozen=True)
class FactPair:
    name: str
    left: FactValue
    right: FactValue

    @property
    def differs(self) -> bool:
        return self.left != self.right


@dataclass(frozen=True)
class CountPair:
    """How often a class or an opcode occurs in each kernel."""

    name: str
    left: int
    right: int


@dataclass(frozen=True)
class DiffRow:
    """A pair of aligned instructions, or one instruction without a partner.

    `values` marks the same instruction on different values: one of its registers holds another value on each side.
    """

    kind: Literal["same", "values", "changed", "left", "right"]
    left: Instruction | None
    right: Instruction | None


@dataclass(frozen=True)
class KernelDiff:
    facts: list[FactPair]
    classes: list[CountPair]
    opcodes: list[CountPair]  # only those that differ, the largest change first
    rows: list[DiffRow]

    @property
    def identical(self) -> bool:
        return all(row.kind == "same" for row in self.rows)


def compare_kernels(
    left: KernelFacts, right: KernelFacts, left_code: Sequence[Instruction], right_code: Sequence[Instruction]
) -> KernelDiff:
    """Compare two kernels by their facts and their instructions, which must both be PTX or both be SASS."""
    left_facts, right_facts = _compared_facts(left), _compared_facts(right)
    facts = [FactPair(name, value, right_facts[name]) for name, value in left_facts.items()]
    classes = _pair_counts(Counter(left.instructions), Counter(right.instructions))
    opcodes = _pair_counts(Counter(i.opcode for i in left_code), Counter(i.opcode for i in right_code))
    changed = [pair for pair in opcodes if pair.left != pair.right]
    changed.sort(key=lambda pair: -abs(pair.left - pair.right))
    return KernelDiff(facts, classes, changed, align(left_code, right_code))


def _compared_facts(facts: KernelFacts) -> dict[str, FactValue]:
    """The facts shown side by side, in the order of display."""
    return {
        "name": facts.name,
        "arch": facts.arch,
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "stack_bytes": facts.stack_bytes,
        "shared_bytes": facts.shared_bytes,
        "barriers": facts.barriers,
        "threads": facts.threads,
        "widest_global_bytes": facts.widest_global_bytes,
        "narrowest_global_bytes": facts.narrowest_global_bytes,
        "predicated": facts.predicated,
        "uses": facts.uses,
        "instructions": facts.size,
    }


def _pair_counts(left: Counter[str], right: Counter[str]) -> list[CountPair]:
    return [CountPair(name, left[name], right[name]) for name in dict.fromkeys([*left, *right])]


def align(left: Sequence[Instruction], right: Sequence[Instruction]) -> list[DiffRow]:
    """Pair the instructions of two kernels by opcode and kinds of operands, then mark those on different values."""
    left_keys, right_keys = [_alignment_key(line) for line in left], [_alignment_key(line) for line in right]
    pairs = len(left) * len(right)
    matcher = difflib.SequenceMatcher(None, left_keys, right_keys, autojunk=pairs > _MAX_EXACT_PAIRS)
    registers = _RegisterPairs()
    rows: list[DiffRow] = []
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        left_part, right_part = left[left_start:left_end], right[right_start:right_end]
        if tag == "equal":
            for a, b in zip(left_part, right_part, strict=True):
                rows.append(DiffRow("same" if registers.pair(a, b) else "values", a, b))
            continue
        for a, b in zip(left_part, right_part, strict=False):
            if a.base == b.base:
                registers.pair(a, b)
                rows.append(DiffRow("changed", a, b))
            else:
                rows += [DiffRow("left", a, None), DiffRow("right", None, b)]
        common = min(len(left_part), len(right_part))
        rows += [DiffRow("left", a, None) for a in left_part[common:]]
        rows += [DiffRow("right", None, b) for b in right_part[common:]]
    return rows


def _alignment_key(line: Instruction) -> str:
    """The instruction without the numbers of its registers and the names of its labels."""
    guard = "" if line.guard is None else "@!" if line.guard.negated else "@"
    return f"{guard}{line.opcode} {','.join(map(_operand_key, line.operands))}"


def _operand_key(operand: Operand) -> str:
    sign = "-" if operand.negated else ""
    if operand.kind == "register":
        # %r1 and %rd1, R1 and P1 are of different kinds; RZ, PT and %tid.x always mean the same.
        kind = operand.name.rstrip("0123456789")
        return sign + (operand.name if kind == operand.name else kind)
    if operand.kind == "immediate":
        return operand.text
    if operand.parts:
        return f"{operand.kind}({','.join(map(_operand_key, operand.parts))};{operand.value or 0})"
    return f"{sign}{operand.kind}"


class _RegisterPairs:
    """Pairs of registers, one of each kernel, that hold the same value as far as the aligned code shows."""

    def __init__(self) -> None:
        self._right_of: dict[str, str] = {}

    def pair(self, left: Instruction, right: Instruction) -> bool:
        """Whether two aligned instructions read the same values. Their results are paired from here on."""
        writes = bool(left.operands) and left.operands[0].kind != "address"
        left_reads, right_reads = (
            [name for operand in line.operands[1 if writes else 0 :] for name in operand.registers()]
            for line in (left, right)
        )
        if left.guard is not None and right.guard is not None:
            left_reads.append(left.guard.register)
            right_reads.append(right.guard.register)
        pairs = zip(left_reads, right_reads, strict=False)
        same = all(self._right_of.setdefault(a, b) == b for a, b in pairs)
        if writes:
            results = zip(left.operands[0].registers(), right.operands[0].registers(), strict=False)
            self._right_of.update(results)
        return same
