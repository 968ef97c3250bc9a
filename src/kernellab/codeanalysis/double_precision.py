"""Whose doubles they are: a kernel's data in memory may be double, or double precision came in on the way.

Every register is followed from what fills it to what uses it, in the order of the code and once more from its end, as
a loop would. A double that is loaded and computed with, or computed and stored, is the data's own. Otherwise what is
widened after a load, or narrowed, was a float. A scalar argument is nobody's data. Arithmetic in fp32 tells little by
itself: NVIDIA's own double-precision division and exponential compare high halves as floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernellab.machinecode.instruction_classes import Class, classify
from kernellab.machinecode.instructions import Instruction, Operand

_LOADS = ("global_load", "generic_load")
_STORES = ("global_store", "generic_store", "global_atomic")
_NARROW = ("F32", "F16", "BF16", "f32", "f16", "bf16")
_DOUBLE = ("F64", "f64")


@dataclass(frozen=True)
class Doubles:
    """`in_memory`: doubles are loaded or stored. `from_floats`: floats are made doubles, or doubles floats."""

    in_memory: bool
    from_floats: bool


def doubles(code: Sequence[Instruction]) -> Doubles:
    held: dict[str, str] = {}  # by register: "loaded", "argument" or "double"
    in_memory = from_floats = False
    for line in (*code, *code):
        kind = classify(line)
        sources = [held.get(name, "") for operand in line.operands[1:] for name in _registers(operand)]
        into, out_of = _conversion(line)
        if kind.name == "fp64" or out_of in _DOUBLE:
            in_memory |= "loaded" in sources
        if into in _DOUBLE and out_of in _NARROW:
            from_floats |= "argument" not in sources and line.operands[-1].kind == "register"
        from_floats |= into in _NARROW and out_of in _DOUBLE
        if kind.name in _STORES:
            in_memory |= "double" in sources
        else:
            _fill(held, line, kind, sources)
    return Doubles(in_memory, from_floats)


def _fill(held: dict[str, str], line: Instruction, kind: Class, sources: list[str]) -> None:
    if not line.operands:
        return
    if kind.name in _LOADS:
        what = "loaded"
    elif kind.name == "constant_load":
        what = "argument"
    elif kind.name == "fp64":
        what = "double"
    elif kind.name == "movement" and len(sources) == 1:
        what = sources[0]
    else:
        what = ""
    # SHFL PT, R5, R6 tells first whether the other lane was there.
    place = 1 if line.operands[0].name.startswith("P") and len(line.operands) > 1 else 0
    for name in _filled(line.operands[place], kind.bytes):
        held[name] = what


def _conversion(line: Instruction) -> tuple[str, str]:
    """What a conversion between kinds of floats makes, and of what."""
    if line.base not in ("F2F", "cvt"):
        return "", ""
    named = [m for m in line.modifiers if m in _NARROW or m in _DOUBLE]
    return (named[0], named[1]) if len(named) == 2 else ("", "")


def _registers(operand: Operand) -> Iterator[str]:
    """A value's registers; an address is no value."""
    if operand.kind != "address":
        yield from operand.registers()


def _filled(target: Operand, size_bytes: int) -> Iterator[str]:
    """In SASS a wide load fills the register it names and those after it."""
    for name in target.registers():
        yield name
        if name.startswith("R") and name[1:].isdigit():
            yield from (f"R{int(name[1:]) + more}" for more in range(1, size_bytes // 4))
