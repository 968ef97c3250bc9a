"""The trip count of a loop, if the code contains it: a counter with a constant start, step and bound.

Works on PTX and SASS. The test must be at the end of the loop. A loop with another exit, or whose counter is set in
another way, has no known trip count; a count that is returned is exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernellab.machinecode.instructions import Instruction, Label, Line, Operand

_STEPS = {"add", "sub", "IADD", "IADD3", "UIADD3", "VIADD", "UIADD"}
_TESTS = {"setp", "ISETP", "UISETP"}
_MOVES = {"mov", "MOV", "MOV32I", "UMOV", "IMAD", "HFMA2", "CS2R"}
_ZEROS = {"RZ", "URZ", "SRZ"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
_WIDE = {"64", "128", "WIDE", "F64"}
_MAX_RESULT_REGISTERS = 4  # that one instruction writes


def trip_count(
    before: Sequence[Line], body: Sequence[Line], inside: Sequence[Instruction], end: Sequence[Instruction]
) -> int | None:
    """The trip count of the loop of the instructions `inside`; None if the code does not contain it.

    The loop follows `before` in the kernel's `body`, and its only exit is after its last block `end`.
    """
    predicate, stays_if = _branch_condition(end[-1])
    tests = [line for line in end if predicate in _registers_written(line)][-1:]
    tests = tests or [line for line in inside if predicate in _registers_written(line)]
    if len(tests) != 1 or tests[0].base not in _TESTS or tests[0].guard is not None:
        return None
    (test,) = tests
    compared = [operand for operand in test.operands[1:] if not _is_predicate(operand)]
    comparison = next((m.lower() for m in test.modifiers if m.lower() in _COMPARISONS), None)
    if len(compared) != 2 or comparison is None or test.has("EX", "or", "OR", "xor", "XOR"):
        return None
    bound = _constant(compared[1])
    counter, offset, reader = _find_counter(compared[0].name, test, inside)
    steps = [line for line in inside if counter in _registers_written(line)]
    start = _start_value(before, body, inside, counter)
    if compared[0].kind != "register" or bound is None or len(steps) != 1 or start is None:
        return None
    step = _constant_added(steps[0], counter)
    if not step:
        return None
    first_compared = start + offset + (step if _position(inside, steps[0]) < _position(inside, reader) else 0)
    unsigned = comparison in ("lo", "ls", "hi", "hs") or test.has("u32", "u64", "U32")
    if unsigned and comparison not in ("eq", "ne") and min(first_compared, bound) < 0:
        return None  # as unsigned values these are large numbers
    return _count_trips(comparison if stays_if else _opposite(comparison), first_compared, step, bound)


def _branch_condition(branch: Instruction) -> tuple[str, bool]:
    """The predicate that a branch depends on, and the value for which it is taken."""
    operands = [operand for operand in branch.operands if operand.kind == "register"]  # BRA.U UP0, target
    if branch.guard is not None and not operands:
        return branch.guard.register, not branch.guard.negated
    if branch.guard is None and len(operands) == 1:
        return operands[0].name, not operands[0].negated
    return "", True


def _count_trips(comparison: str, first: int, step: int, bound: int) -> int | None:
    """Iterations until the comparison fails, from the value compared in the first one."""
    if comparison == "ne":
        steps, remainder = divmod(bound - first, step)
        return steps + 1 if remainder == 0 and steps >= 0 else None
    if comparison == "eq":
        return 1 if first != bound else 2
    if comparison in ("gt", "ge", "hi", "hs"):
        first, step, bound = -first, -step, -bound
    if step < 0:
        return None
    bound += comparison in ("le", "ls", "ge", "hs")
    return max(0, -((first - bound) // step)) + 1


def _opposite(comparison: str) -> str:
    pairs = (("eq", "ne"), ("lt", "ge"), ("le", "gt"), ("lo", "hs"), ("ls", "hi"))
    return {**dict(pairs), **{b: a for a, b in pairs}}[comparison]


def _position(code: Sequence[Instruction], line: Instruction) -> int:
    return next(i for i, other in enumerate(code) if other is line)


def _find_counter(compared: str, test: Instruction, inside: Sequence[Instruction]) -> tuple[str, int, Instruction]:
    """The counting register, the constant added to it for the comparison, and the instruction that reads it."""
    writers = [line for line in inside if compared in _registers_written(line)]
    sources = [operand.name for line in writers for operand in line.operands[1:] if operand.name not in _ZEROS]
    for counter in sources if len(writers) == 1 and compared not in sources else ():
        offset = _constant_added(writers[0], counter)
        if offset is not None:
            return counter, offset, writers[0]
    return compared, 0, test


def _constant_added(line: Instruction, counter: str) -> int | None:
    """The constant that an instruction adds to a register; None if it does anything else."""
    operands = [o for o in line.operands[1:] if o.name not in _ZEROS and not _is_predicate(o)]
    amounts = [value for o in operands if (value := _constant(o)) is not None]
    if line.base not in _STEPS or line.guard is not None or line.has("cc", "X", "sat"):
        return None
    if len(operands) != 2 or len(amounts) != 1 or counter not in (o.name for o in operands if not o.negated):
        return None
    if line.base == "sub":
        return -amounts[0] if operands[0].name == counter else None
    return amounts[0]


def _start_value(
    before: Sequence[Line], body: Sequence[Line], inside: Sequence[Instruction], counter: str
) -> int | None:
    """The counter's value before the loop; None if it depends on the path taken to the loop."""
    at = next((i for i in reversed(range(len(before))) if counter in _registers_written(before[i])), None)
    if at is None:
        return None
    own = {id(line) for line in inside}
    other_writers = sum(id(line) not in own and counter in _registers_written(line) for line in body) - 1
    labels = [line for line in before[at:-1] if isinstance(line, Label)]  # without the loop's own label, the last
    last = before[at]
    if (labels and other_writers) or not isinstance(last, Instruction) or last.guard is not None:
        return None
    return _moved_constant(last)


def _moved_constant(line: Instruction) -> int | None:
    """The constant that an instruction moves into a register."""
    sources = line.operands[1:]
    if line.base not in _MOVES or not sources:
        return None
    if line.base == "IMAD" and not (line.has("MOV") and [o.name for o in sources[:2]] == ["RZ", "RZ"]):
        return None
    if line.base == "HFMA2":  # two fp16 halves of a constant; only zero is the same number as an integer
        halves = [o.value for o in sources if o.kind == "immediate"]
        return 0 if {o.name for o in sources if o.kind == "register"} == {"RZ"} and set(halves) == {0} else None
    return 0 if sources[-1].name in _ZEROS else _constant(sources[-1])


def _registers_written(line: Line) -> set[str]:
    """Registers that an instruction may write."""
    if not isinstance(line, Instruction) or not line.operands or line.base in ("st", "bra", "BRA"):
        return set()
    registers = set(line.operands[0].registers())
    # SASS has predicates beside the result: IADD3 R1, P0, PT, R2, … and SHFL P0, R1, … and ISETP P0, PT, R2, …
    for i, operand in enumerate(line.operands[1:4], 1):
        if _is_predicate(operand) or (i == 1 and _is_predicate(line.operands[0])):
            registers |= set(operand.registers())
        else:
            break
    wide = line.base == "CS2R" or line.base.startswith("D") or not _WIDE.isdisjoint(line.modifiers)
    for name in list(registers):
        number = re.fullmatch(r"(U?R)(\d+)", name)
        if number and wide:
            registers |= {f"{number[1]}{int(number[2]) + i}" for i in range(1, _MAX_RESULT_REGISTERS)}
    return registers


def _is_predicate(operand: Operand) -> bool:
    return operand.kind == "register" and re.fullmatch(r"U?P(\d|T)", operand.name) is not None


def _constant(operand: Operand) -> int | None:
    return operand.value if operand.kind == "immediate" and isinstance(operand.value, int) else None
