"""Whether a warp's accesses are coalesced: the first warp's addresses, worked out by doing the PTX's arithmetic.

Sizes and strides come with the launch, pointers are given addresses of their own, and every instruction is done in the
order it stands in, for 32 lanes at once: one turn of each loop, both sides of each branch. A value that depends on
memory or on an instruction not known here is unknown, and so is everything made from it. Accesses whose addresses are
unknown do not count; where none is known there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernellab.machinecode.classes import classify
from kernellab.machinecode.instructions import Instruction, Operand, instructions
from kernellab.machinecode.ptx import Entry

SECTOR_BYTES = 32
_LANES = 32
_APART = 1 << 44  # between the addresses pointers are given: no tensor reaches from one to the next
_FEWEST_LANES = 16  # that must differ: a value all lanes share is one sector, and nobody's fault

Lanes = list[int] | None


def spread(entry: Entry, values: Sequence[int | None], block: Sequence[int]) -> float | None:
    """Sectors the first warp's loads and stores touch, over the fewest that would hold what they move; 1 is coalesced.

    `values` are the launch's arguments in order, None for a pointer.
    """
    touched: set[int] = set()
    moved: set[int] = set()
    lanes = _Lanes(entry, values, block)
    for line in instructions(entry.body):
        kind = classify(line)
        if kind.name in ("global_load", "global_store", "async_copy") and kind.bytes:
            address = lanes.address(line)
            if address is not None and len(set(address)) >= _FEWEST_LANES:
                for start in set(address):
                    moved.update(range(start, start + kind.bytes))
                    touched.update(range(start // SECTOR_BYTES, (start + kind.bytes - 1) // SECTOR_BYTES + 1))
        lanes.do(line)
    return len(touched) * SECTOR_BYTES / len(moved) if moved else None


class _Lanes:
    """The registers of 32 lanes."""

    def __init__(self, entry: Entry, values: Sequence[int | None], block: Sequence[int]) -> None:
        self._at: dict[str, Lanes] = {}
        self._params: dict[str, int] = {}
        for number, param in enumerate(entry.params):
            known = values[number] if number < len(values) else 0
            self._params[param.name] = _APART * (number + 1) if known is None else known
        wide, high, _ = block
        threads = range(_LANES)
        self._at |= {
            "%tid.x": [t % wide for t in threads],
            "%tid.y": [t // wide % high for t in threads],
            "%tid.z": [t // wide // high for t in threads],
            "%laneid": list(threads),
            **{f"%ntid.{dim}": [size] * _LANES for dim, size in zip("xyz", block, strict=True)},
            **{f"%{name}.{dim}": [0] * _LANES for name in ("ctaid", "clusterid", "cluster_ctaid") for dim in "xyz"},
        }

    def address(self, line: Instruction) -> Lanes:
        where = [operand for operand in line.operands if operand.kind == "address"]
        base = self._at.get(where[-1].name) if where else None
        offset = where[-1].value if where else None
        return [a + int(offset or 0) for a in base] if base is not None else None

    def do(self, line: Instruction) -> None:
        """What the instruction leaves in its first operand."""
        if not line.operands or line.base in ("st", "bra", "bar", "red"):
            return
        target = line.operands[0]
        found = self._result(line) if target.kind == "register" else None  # halves of a value are nobody's address
        for name in target.registers():
            self._at[name] = found

    def _result(self, line: Instruction) -> Lanes:
        if line.base == "ld" and line.has("param"):
            known = self._params.get(line.operands[-1].name)
            return None if known is None or line.operands[-1].value else [known] * _LANES  # a part of a struct is not
        how = _ARITHMETIC.get(line.base)
        given = [self._value(operand) for operand in line.operands[1:]]
        if how is None or any(value is None for value in given):
            return None
        kind = next((m for m in reversed(line.modifiers) if m[:1] in "subf" and m[1:].isdigit()), "")
        if not kind or kind.startswith("f"):
            return None
        columns = zip(*(value for value in given if value is not None), strict=True)
        try:
            return [_fit(how(line, *(_fit(v, kind) for v in column)), _wide(line, kind)) for column in columns]
        except (TypeError, ValueError):  # a form of the instruction with other operands than the usual ones
            return None

    def _value(self, operand: Operand) -> Lanes:
        if operand.kind == "immediate" and isinstance(operand.value, int):
            return [operand.value] * _LANES
        return self._at.get(operand.name) if operand.kind == "register" else None


def _wide(line: Instruction, kind: str) -> str:
    """The type of the result: a wide product has twice the bits, a conversion the first type named."""
    if line.has("wide"):
        return kind[0] + str(2 * int(kind[1:]))
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
    "bfe": lambda line, a, start, count: a >> start & (1 << count) - 1,
    "lop3": _lop3,
}
