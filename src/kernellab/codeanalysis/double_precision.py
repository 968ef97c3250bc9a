"""Whether a kernel's data is double precision, or only its arithmetic.

Each register is followed from the instruction that writes it to those that read it, in the order of the code and then a
second time, as in a loop. Doubles that are loaded and computed with, or computed and stored, are the kernel's data.
Otherwise a value that is converted to double after a load, or converted from double, was a float. A scalar argument is
not data. Arithmetic in fp32 proves nothing by itself: NVIDIA's double-precision division and exponential compare high
halves as floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernellab.machinecode.instruction_classes import InstructionClass, classify
from kernellab.machinecode.instructions import Instruction, Operand, wide_registers

_LOADS = ("global_load", "generic_load")
_STORES = ("global_store", "generic_store", "global_atomic")
_NARROW = ("F32", "F16", "BF16", "f32", "f16", "bf16")
_DOUBLE = ("F64", "f64")


@dataclass(frozen=True)
class DoubleUse:
    """`in_memory`: doubles are loaded or stored. `from_floats`: floats are converted to doubles, or back."""

    in_memory: bool
    from_floats: bool


def find_doubles(code: Sequence[Instruction]) -> DoubleUse:
    contents: dict[str, str] = {}  # by register: "loaded", "argument" or "double"
    in_memory = from_floats = False
    for line in (*code, *code):
        kind = classify(line)
        sources = [contents.get(name, "") for operand in line.operands[1:] for name in _value_registers(operand)]
        to_type, from_type = _conversion(line)
        if kind.name == "fp64" or from_type in _DOUBLE:
            in_memory |= "loaded" in sources
        if to_type in _DOUBLE and from_type in _NARROW:
            from_floats |= "argument" not in sources and line.operands[-1].kind == "register"
        from_floats |= to_type in _NARROW and from_type in _DOUBLE
        if kind.name in _STORES:
            in_memory |= "double" in sources
        else:
            _track_result(contents, line, kind, sources)
    return DoubleUse(in_memory, from_floats)


def _track_result(contents: dict[str, str], line: Instruction, kind: InstructionClass, sources: list[str]) -> None:
    """Record what the instruction writes into its result registers."""
    if not line.operands:
        return
    if kind.name in _LOADS:
        content = "loaded"
    elif kind.name == "constant_load":
        content = "argument"
    elif kind.name == "fp64":
        content = "double"
    elif kind.name == "movement" and len(sources) == 1:
        content = sources[0]
    else:
        content = ""
    # SHFL PT, R5, R6: the first operand is a predicate, the result comes second.
    position = 1 if line.operands[0].name.startswith("P") and len(line.operands) > 1 else 0
    for name in wide_registers(line.operands[position], kind.bytes):
        contents[name] = content


def _conversion(line: Instruction) -> tuple[str, str]:
    """The types that a conversion between floats converts to and from; empty for other instructions."""
    if line.base not in ("F2F", "cvt"):
        return "", ""
    types = [m for m in line.modifiers if m in _NARROW or m in _DOUBLE]
    return (types[0], types[1]) if len(types) == 2 else ("", "")


def _value_registers(operand: Operand) -> Iterator[str]:
    """The registers of a value; an address is not a value."""
    if operand.kind != "address":
        yield from operand.registers()
