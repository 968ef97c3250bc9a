"""Integer arithmetic of PTX done for the lanes of a warp at once; a value that is not known is None."""

from __future__ import annotations

from collections.abc import Callable

from kernellab.machinecode.instructions import Instruction

LANES = 32
Lanes = list[int] | None


def computed(line: Instruction, given: list[Lanes]) -> Lanes:
    """What an instruction makes of its operands; None where it is not known here, or an operand is not."""
    how = _ARITHMETIC.get(line.base)
    kind = _type(line)
    if how is None or not kind or kind.startswith("f") or any(value is None for value in given):
        return None
    wide = _wide(line, kind)
    # The sum of a wide multiply-add is as wide as its product.
    kinds = [wide if line.base == "mad" and at == 2 else kind for at in range(len(given))]
    columns = zip(*(value for value in given if value is not None), strict=True)
    try:
        return [_fit(how(line, *map(_fit, column, kinds)), wide) for column in columns]
    except (TypeError, ValueError):  # a form of the instruction with other operands than the usual ones
        return None


def packed(line: Instruction, parts: list[Lanes]) -> Lanes:
    """`mov.b64 %rd1, {%r1, %r2}`: the lowest first."""
    bits = _bits(line) // max(1, len(parts))
    known = [part for part in parts if part is not None]
    if not bits or len(known) < len(parts):
        return None
    kind = f"u{bits}"
    return [sum(_fit(value, kind) << at * bits for at, value in enumerate(lane)) for lane in zip(*known, strict=True)]


def unpacked(line: Instruction, whole: Lanes, count: int) -> list[Lanes]:
    """`mov.b64 {%r1, %r2}, %rd1`."""
    bits = _bits(line) // max(1, count)
    if not bits or whole is None:
        return [None] * count
    return [[_fit(value >> at * bits, f"u{bits}") for value in whole] for at in range(count)]


def _bits(line: Instruction) -> int:
    kind = _type(line)
    return int(kind[1:]) if kind else 0


def _type(line: Instruction) -> str:
    """The type of the operands: the last one named."""
    if line.has("pred"):
        return "u1"
    return next((m for m in reversed(line.modifiers) if m[:1] in "subf" and m[1:].isdigit() and int(m[1:])), "")


def _wide(line: Instruction, kind: str) -> str:
    """The type of the result: a wide product has twice the bits, a conversion the first type named."""
    if line.has("wide"):
        return kind[0] + str(2 * int(kind[1:]))
    if line.base == "setp":
        return "u1"
    if line.base == "cvt":
        return next(m for m in line.modifiers if m[:1] in "subf" and m[1:].isdigit())
    return kind


def _fit(value: int, kind: str) -> int:
    """What is left of a value in so many bits, read with or without a sign."""
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def _product(line: Instruction, a: int, b: int, *more: int) -> int:
    if line.has("hi"):
        bits = next(int(m[1:]) for m in line.modifiers if m[:1] in "su" and m[1:].isdigit())
        return (a * b >> bits) + sum(more)
    return a * b + sum(more)


def _quotient(a: int, b: int) -> int:
    """Towards zero, as the GPU divides."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _lop3(line: Instruction, a: int, b: int, c: int, table: int) -> int:
    """Bit by bit, whatever the table of eight says."""
    found = 0
    for bit in range(32):
        row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1
        found |= (table >> row & 1) << bit
    return found


def _insert(line: Instruction, a: int, b: int, start: int, count: int) -> int:
    start = min(start, 64)  # damaged code may name any number
    mask = (1 << min(count, 64)) - 1 << start
    return b & ~mask | a << start & mask


def _funnel(line: Instruction, low: int, high: int, by: int) -> int:
    """The upper half of both shifted left, or the lower half of both shifted right."""
    by = by % 32 if line.has("wrap") else min(by, 32)
    both = (high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF
    return both << by >> 32 if line.has("l") else both >> by


_COMPARED: dict[str, Callable[[int, int], bool]] = {
    **dict.fromkeys(("eq",), lambda a, b: a == b),
    **dict.fromkeys(("ne",), lambda a, b: a != b),
    **dict.fromkeys(("lt", "lo"), lambda a, b: a < b),
    **dict.fromkeys(("le", "ls"), lambda a, b: a <= b),
    **dict.fromkeys(("gt", "hi"), lambda a, b: a > b),
    **dict.fromkeys(("ge", "hs"), lambda a, b: a >= b),
}
_JOINED: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _compared(line: Instruction, a: int, b: int, *other: int) -> int:
    """Two numbers compared, and the answer joined with another predicate."""
    how = next((m for m in line.modifiers if m in _COMPARED), None)
    join = next((m for m in line.modifiers if m in _JOINED), None)
    if how is None or bool(join) != bool(other):
        raise ValueError(line.opcode)
    found = int(_COMPARED[how](a, b))
    return _JOINED[join](found, other[0] & 1) if join else found


_ARITHMETIC: dict[str, Callable[..., int]] = {
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
    "setp": _compared,
    "selp": lambda line, a, b, p: a if p & 1 else b,
    "bfi": _insert,
    "shf": _funnel,
    "bfe": lambda line, a, start, count: a >> min(start, 64) & (1 << min(count, 64)) - 1,
    "lop3": _lop3,
}
