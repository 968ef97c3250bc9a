"""How often a loop turns, where its code says so: a counter with a constant start, step and bound, tested at the end.

Read from PTX and SASS alike. A loop that is left in another place, too, or whose counter is set in another way, is not
known; what is told is exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernellab.machinecode.instructions import Instruction, Label, Line, Operand

_STEPS = {"add", "sub", "IADD", "IADD3", "UIADD3", "VIADD", "UIADD"}
_TESTS = {"setp", "ISETP", "UISETP"}
_SET = {"mov", "MOV", "MOV32I", "UMOV", "IMAD", "HFMA2", "CS2R"}
_ZEROS = {"RZ", "URZ", "SRZ"}
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
_WIDE = {"64", "128", "WIDE", "F64"}
_MOST_REGISTERS = 4  # that one instruction fills


def turns(
    before: Sequence[Line], body: Sequence[Line], inside: Sequence[Instruction], end: Sequence[Instruction]
) -> int | None:
    """Turns of the loop made of `inside`, which comes after `before` and is left after its last block `end` alone."""
    predicate, stays_if = _condition(end[-1])
    tests = [line for line in end if predicate in _written(line)][-1:]
    tests = tests or [line for line in inside if predicate in _written(line)]
    if len(tests) != 1 or tests[0].base not in _TESTS or tests[0].guard is not None:
        return None
    (test,) = tests
    compared = [operand for operand in test.operands[1:] if not _is_predicate(operand)]
    how = next((m.lower() for m in test.modifiers if m.lower() in _COMPARED), None)
    if len(compared) != 2 or how is None or test.has("EX", "or", "OR", "xor", "XOR"):
        return None
    bound = _constant(compared[1])
    counter, more, reader = _counter(compared[0].name, test, inside)
    steps = [line for line in inside if counter in _written(line)]
    start = _start(before, body, inside, counter)
    if compared[0].kind != "register" or bound is None or len(steps) != 1 or start is None:
        return None
    step = _added(steps[0], counter)
    if not step:
        return None
    compared_first = start + more + (step if _place(inside, steps[0]) < _place(inside, reader) else 0)
    unsigned = how in ("lo", "ls", "hi", "hs") or test.has("u32", "u64", "U32")
    if unsigned and how not in ("eq", "ne") and min(compared_first, bound) < 0:
        return None  # read without a sign these are large numbers
    return _count(how if stays_if else _opposite(how), compared_first, step, bound)


def _condition(back: Instruction) -> tuple[str, bool]:
    """The predicate a branch depends on, and whether it is taken where that is true."""
    also = [operand for operand in back.operands if operand.kind == "register"]  # BRA.U UP0, target
    if back.guard is not None and not also:
        return back.guard.register, not back.guard.negated
    if back.guard is None and len(also) == 1:
        return also[0].name, not also[0].negated
    return "", True


def _count(how: str, compared: int, step: int, bound: int) -> int | None:
    """The first turn after which the comparison fails."""
    if how == "ne":
        more, left = divmod(bound - compared, step)
        return more + 1 if left == 0 and more >= 0 else None
    if how == "eq":
        return 1 if compared != bound else 2
    if how in ("gt", "ge", "hi", "hs"):
        compared, step, bound = -compared, -step, -bound
    if step < 0:
        return None
    bound += how in ("le", "ls", "ge", "hs")
    return max(0, -((compared - bound) // step)) + 1


def _opposite(how: str) -> str:
    pairs = (("eq", "ne"), ("lt", "ge"), ("le", "gt"), ("lo", "hs"), ("ls", "hi"))
    return {**dict(pairs), **{b: a for a, b in pairs}}[how]


def _place(code: Sequence[Instruction], wanted: Instruction) -> int:
    return next(at for at, line in enumerate(code) if line is wanted)


def _counter(compared: str, test: Instruction, inside: Sequence[Instruction]) -> tuple[str, int, Instruction]:
    """The register that counts, what is added to it for the comparison, and the instruction that reads it."""
    made = [line for line in inside if compared in _written(line)]
    of = [operand.name for line in made for operand in line.operands[1:] if operand.name not in _ZEROS]
    for counter in of if len(made) == 1 and compared not in of else ():
        more = _added(made[0], counter)
        if more is not None:
            return counter, more, made[0]
    return compared, 0, test


def _added(line: Instruction, counter: str) -> int | None:
    """The constant that is added to a register; None where anything else is done with it."""
    given = [o for o in line.operands[1:] if o.name not in _ZEROS and not _is_predicate(o)]
    amounts = [value for o in given if (value := _constant(o)) is not None]
    if line.base not in _STEPS or line.guard is not None or line.has("cc", "X", "sat"):
        return None
    if len(given) != 2 or len(amounts) != 1 or counter not in (o.name for o in given if not o.negated):
        return None
    if line.base == "sub":
        return -amounts[0] if given[0].name == counter else None
    return amounts[0]


def _start(before: Sequence[Line], body: Sequence[Line], inside: Sequence[Instruction], counter: str) -> int | None:
    """What the counter is set to before the loop; None where it depends on the way taken there."""
    at = next((i for i in reversed(range(len(before))) if counter in _written(before[i])), None)
    if at is None:
        return None
    own = {id(line) for line in inside}
    others = sum(id(line) not in own and counter in _written(line) for line in body) - 1
    between = [line for line in before[at:-1] if isinstance(line, Label)]  # the last of them is the loop's own
    last = before[at]
    if (between and others) or not isinstance(last, Instruction) or last.guard is not None:
        return None
    return _set_to(last)


def _set_to(line: Instruction) -> int | None:
    given = line.operands[1:]
    if line.base not in _SET or not given:
        return None
    if line.base == "IMAD" and not (line.has("MOV") and [o.name for o in given[:2]] == ["RZ", "RZ"]):
        return None
    if line.base == "HFMA2":  # two halves of a constant; zero is the same as a number
        halves = [o.value for o in given if o.kind == "immediate"]
        return 0 if {o.name for o in given if o.kind == "register"} == {"RZ"} and set(halves) == {0} else None
    return 0 if given[-1].name in _ZEROS else _constant(given[-1])


def _written(line: Line) -> set[str]:
    """Registers an instruction may leave something in."""
    if not isinstance(line, Instruction) or not line.operands or line.base in ("st", "bra", "BRA"):
        return set()
    found = set(line.operands[0].registers())
    # SASS has predicates beside its result: IADD3 R1, P0, PT, R2, … and SHFL P0, R1, … and ISETP P0, PT, R2, …
    for at, operand in enumerate(line.operands[1:4], 1):
        if _is_predicate(operand) or (at == 1 and _is_predicate(line.operands[0])):
            found |= set(operand.registers())
        else:
            break
    wide = line.base == "CS2R" or line.base.startswith("D") or not _WIDE.isdisjoint(line.modifiers)
    for name in list(found):
        number = re.fullmatch(r"(U?R)(\d+)", name)
        if number and wide:
            found |= {f"{number[1]}{int(number[2]) + more}" for more in range(1, _MOST_REGISTERS)}
    return found


def _is_predicate(operand: Operand) -> bool:
    return operand.kind == "register" and re.fullmatch(r"U?P(\d|T)", operand.name) is not None


def _constant(operand: Operand) -> int | None:
    return operand.value if operand.kind == "immediate" and isinstance(operand.value, int) else None
