"""Integer arithmetic of PTX on all lanes of a warp at once. An unknown value is None."""

from __future__ import annotations

from collections.abc import Callable

from kernellab.machinecode.instructions import Instruction

LANES = 32
Lanes = list[int] | None


def compute(line: Instruction, operands: list[Lanes]) -> Lanes:
    """The result of an instruction; None where the instruction is not supported or an operand is unknown."""
    operation = _OPERATIONS.get(line.base)
    operand_type = _operand_type(line)
    lanes = [operand for operand in operands if operand is not None]
    if operation is None or not operand_type or operand_type.startswith("f") or len(lanes) < len(operands):
        return None
    result_type = _result_type(line, operand_type)
    # The addend of a wide multiply-add is as wide as its product.
    types = [result_type if line.base == "mad" and at == 2 else operand_type for at in range(len(operands))]
    try:
        return [_wrap(operation(line, *map(_wrap, values, types)), result_type) for values in zip(*lanes, strict=True)]
    except (TypeError, ValueError):  # a form of the instruction with other operands than the usual ones
        return None


def pack(line: Instruction, parts: list[Lanes]) -> Lanes:
    """`mov.b64 %rd1, {%r1, %r2}`: the first part has the lowest bits."""
    bits = _bits(line) // max(1, len(parts))
    lanes = [part for part in parts if part is not None]
    if not bits or len(lanes) < len(parts):
        return None
    part_type = f"u{bits}"
    return [
        sum(_wrap(value, part_type) << at * bits for at, value in enumerate(values))
        for values in zip(*lanes, strict=True)
    ]


def unpack(line: Instruction, whole: Lanes, count: int) -> list[Lanes]:
    """`mov.b64 {%r1, %r2}, %rd1`."""
    bits = _bits(line) // max(1, count)
    if not bits or whole is None:
        return [None] * count
    return [[_wrap(value >> at * bits, f"u{bits}") for value in whole] for at in range(count)]


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


def _product(line: Instruction, a: int, b: int, *more: int) -> int:
    if line.has("hi"):
        bits = next(int(m[1:]) for m in line.modifiers if m[:1] in "su" and m[1:].isdigit())
        return (a * b >> bits) + sum(more)
    return a * b + sum(more)


def _quotient(a: int, b: int) -> int:
    """Rounded towards zero, as the GPU divides."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _lop3(line: Instruction, a: int, b: int, c: int, table: int) -> int:
    """Any logical function of three bits, given by its truth table of eight rows."""
    result = 0
    for bit in range(32):
        row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
        result |= (table >> row & 1) << bit
    return result


def _insert(line: Instruction, a: int, b: int, start: int, count: int) -> int:
    start = min(start, 64)  # damaged code may contain any number
    mask = (1 << min(count, 64)) - 1 << start
    return b & ~mask | a << start & mask


def _funnel(line: Instruction, low: int, high: int, by: int) -> int:
    """The upper half of the 64 bits shifted left, or their lower half shifted right."""
    by = by % 32 if line.has("wrap") else min(by, 32)
    both = (high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF
    return both << by >> 32 if line.has("l") else both >> by


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    **dict.fromkeys(("eq",), lambda a, b: a == b),
    **dict.fromkeys(("ne",), lambda a, b: a != b),
    **dict.fromkeys(("lt", "lo"), lambda a, b: a < b),
    **dict.fromkeys(("le", "ls"), lambda a, b: a <= b),
    **dict.fromkeys(("gt", "hi"), lambda a, b: a > b),
    **dict.fromkeys(("ge", "hs"), lambda a, b: a >= b),
}
_LOGICAL: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _compare(line: Instruction, a: int, b: int, *other: int) -> int:
    """Compare two numbers, and combine the result with another predicate where the opcode says so."""
    comparison = next((m for m in line.modifiers if m in _COMPARISONS), None)
    logical = next((m for m in line.modifiers if m in _LOGICAL), None)
    if comparison is None or bool(logical) != bool(other):
        raise ValueError(line.opcode)
    result = int(_COMPARISONS[comparison](a, b))
    return _LOGICAL[logical](result, other[0] & 1) if logical else result


_OPERATIONS: dict[str, Callable[..., int]] = {
    "mov": lambda line, a: a,
    "cvt": lambda line, a: a,
    "cvta": lambda line, a: a,
    "add": lambda line, a, b: a + b,
    "sub": lambda line, a, b: a - b,
    "mul": _product,
    "mad": _product,
    "shl": lambda line, a, b: a << min(b, 64),
    "shr": lambda line, a, b: a >> min(b, 64),
    "and": lambda line, a, b: a & b,
    "or": lambda line, a, b: a | b,
    "xor": lambda line, a, b: a ^ b,
    "not": lambda line, a: ~a,
    "neg": lambda line, a: -a,
    "min": lambda line, a, b: min(a, b),
    "max": lambda line, a, b: max(a, b),
    "div": lambda line, a, b: _quotient(a, b),
    "rem": lambda line, a, b: a - b * _quotient(a, b),
    "abs": lambda line, a: abs(a),
    "setp": _compare,
    "selp": lambda line, a, b, p: a if p & 1 else b,
    "bfi": _insert,
    "shf": _funnel,
    "bfe": lambda line, a, start, count: a >> min(start, 64) & (1 << min(count, 64)) - 1,
    "lop3": _lop3,
}
