"""Integer arithmetic of PTX on all lanes of a warp at once. An unknown value is None."""

from __future__ import annotations

import operator
from collections.abc import Callable

from kernellab.machinecode.instructions import Instruction

LANES = 32
Lanes = list[int] | None
Values = tuple[int, ...]  # of the operands, in one lane
# The result of an instruction in one lane. Raises ValueError for an unusual number of operands.
Operation = Callable[[Instruction, Values], int]
_MAX_SHIFT = 64  # damaged code may contain any number


def compute(line: Instruction, operands: list[Lanes]) -> Lanes:
    """The result of an instruction; None if the instruction is not supported or an operand is unknown."""
    operation = _OPERATIONS.get(line.base)
    operand_type = _operand_type(line)
    lanes = [operand for operand in operands if operand is not None]
    if operation is None or not operand_type or operand_type.startswith("f") or len(lanes) < len(operands):
        return None
    result_type = _result_type(line, operand_type)
    # The addend of a wide multiply-add is as wide as its product.
    types = [result_type if line.base == "mad" and i == 2 else operand_type for i in range(len(operands))]
    try:
        return [
            _wrap(operation(line, tuple(map(_wrap, values, types))), result_type) for values in zip(*lanes, strict=True)
        ]
    except ValueError:  # a form of the instruction with an unusual number of operands
        return None


def pack(line: Instruction, parts: list[Lanes]) -> Lanes:
    """`mov.b64 %rd1, {%r1, %r2}`: the first part has the lowest bits."""
    bits = _bits(line) // max(1, len(parts))
    lanes = [part for part in parts if part is not None]
    if not bits or len(lanes) < len(parts):
        return None
    part_type = f"u{bits}"
    return [
        sum(_wrap(value, part_type) << i * bits for i, value in enumerate(values))
        for values in zip(*lanes, strict=True)
    ]


def unpack(line: Instruction, whole: Lanes, count: int) -> list[Lanes]:
    """`mov.b64 {%r1, %r2}, %rd1`."""
    bits = _bits(line) // max(1, count)
    if not bits or whole is None:
        return [None] * count
    return [[_wrap(value >> i * bits, f"u{bits}") for value in whole] for i in range(count)]


def _bits(line: Instruction) -> int:
    name = _operand_type(line)
    return int(name[1:]) if name else 0


def _operand_type(line: Instruction) -> str:
    """The type of the operands: the last type that the opcode names."""
    if line.has("pred"):
        return "u1"
    return next((m for m in reversed(line.modifiers) if m[:1] in "subf" and m[1:].isdigit() and int(m[1:])), "")


def _result_type(line: Instruction, operand_type: str) -> str:
    """A wide product has twice the bits of its operands; a conversion has the first type that the opcode names."""
    if line.has("wide"):
        return operand_type[0] + str(2 * int(operand_type[1:]))
    if line.base == "setp":
        return "u1"
    if line.base == "cvt":
        return next(m for m in line.modifiers if m[:1] in "subf" and m[1:].isdigit())
    return operand_type


def _wrap(value: int, type_name: str) -> int:
    """The value wrapped around to the bits of a type, signed or unsigned."""
    bits = int(type_name[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if type_name[0] == "s" and value >> (bits - 1) else value


def _multiply_add(line: Instruction, values: Values) -> int:
    a, b, *addends = values
    if line.has("hi"):
        bits = next(int(m[1:]) for m in line.modifiers if m[:1] in "su" and m[1:].isdigit())
        return (a * b >> bits) + sum(addends)
    return a * b + sum(addends)


def _quotient(a: int, b: int) -> int:
    """The quotient rounded towards zero, as on the GPU."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _lop3(line: Instruction, values: Values) -> int:
    """Any logical function of three bits, given by its truth table of eight rows."""
    a, b, c, table = values
    result = 0
    for bit in range(32):
        row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
        result |= (table >> row & 1) << bit
    return result


def _insert_bits(line: Instruction, values: Values) -> int:
    a, b, start, count = values
    start = min(start, _MAX_SHIFT)
    mask = (1 << min(count, _MAX_SHIFT)) - 1 << start
    return b & ~mask | a << start & mask


def _funnel_shift(line: Instruction, values: Values) -> int:
    """The upper half of the 64 bits shifted left, or their lower half shifted right."""
    low, high, amount = values
    amount = amount % 32 if line.has("wrap") else min(amount, 32)
    both = (high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF
    return both << amount >> 32 if line.has("l") else both >> amount


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    **dict.fromkeys(("eq",), operator.eq),
    **dict.fromkeys(("ne",), operator.ne),
    **dict.fromkeys(("lt", "lo"), operator.lt),
    **dict.fromkeys(("le", "ls"), operator.le),
    **dict.fromkeys(("gt", "hi"), operator.gt),
    **dict.fromkeys(("ge", "hs"), operator.ge),
}
_LOGICAL: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _compare(line: Instruction, values: Values) -> int:
    """Compare two numbers, and combine the result with another predicate if the opcode says so."""
    a, b, *other = values
    comparison = next((m for m in line.modifiers if m in _COMPARISONS), None)
    logical = next((m for m in line.modifiers if m in _LOGICAL), None)
    if comparison is None or bool(logical) != bool(other):
        raise ValueError(line.opcode)
    result = int(_COMPARISONS[comparison](a, b))
    return _LOGICAL[logical](result, other[0] & 1) if logical else result


def _unary(operation: Callable[[int], int]) -> Operation:
    def apply(line: Instruction, values: Values) -> int:
        (a,) = values
        return operation(a)

    return apply


def _binary(operation: Callable[[int, int], int]) -> Operation:
    def apply(line: Instruction, values: Values) -> int:
        a, b = values
        return operation(a, b)

    return apply


def _ternary(operation: Callable[[int, int, int], int]) -> Operation:
    def apply(line: Instruction, values: Values) -> int:
        a, b, c = values
        return operation(a, b, c)

    return apply


_OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("mov", "cvt", "cvta"), _unary(lambda a: a)),
    "not": _unary(operator.invert),
    "neg": _unary(operator.neg),
    "abs": _unary(abs),
    "add": _binary(operator.add),
    "sub": _binary(operator.sub),
    "and": _binary(operator.and_),
    "or": _binary(operator.or_),
    "xor": _binary(operator.xor),
    "min": _binary(min),
    "max": _binary(max),
    "div": _binary(_quotient),
    "rem": _binary(lambda a, b: a - b * _quotient(a, b)),
    "shl": _binary(lambda a, b: a << min(b, _MAX_SHIFT)),
    "shr": _binary(lambda a, b: a >> min(b, _MAX_SHIFT)),
    "selp": _ternary(lambda a, b, p: a if p & 1 else b),
    "bfe": _ternary(lambda a, start, count: a >> min(start, _MAX_SHIFT) & (1 << min(count, _MAX_SHIFT)) - 1),
    "bfi": _insert_bits,
    "shf": _funnel_shift,
    "lop3": _lop3,
    "setp": _compare,
    **dict.fromkeys(("mul", "mad"), _multiply_add),
}
