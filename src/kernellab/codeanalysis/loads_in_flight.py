"""How many bytes of global memory a thread asks for before it has to wait for any of them, going by the code's order.

Loads whose results nobody has used yet are under way together; the first use ends that, as does a jump or a label. A
load that is fetched in one turn of a loop for the next is not recognised, nor are TMA's copies counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction, Label, Line

_LOADS = ("global_load", "async_copy")
_STORES = ("global_store", "shared_store", "local_store", "generic_store")
_JUMPS = ("BRA", "EXIT", "RET", "bra", "ret", "exit")


def flight_bytes(body: Sequence[Line]) -> int:
    """The most of any stretch of the code."""
    most = total = 0
    awaited: set[str] = set()
    for line in body:
        if isinstance(line, Instruction):
            kind = classify(line)
            ends = (line.base in _JUMPS and line.guard is None) or not awaited.isdisjoint(_used(line, kind.name))
            # cp.async has no register to wait for: it is waited for as a group.
            ends |= kind.name == "synchronisation" and not awaited
            if ends:
                total, awaited = 0, set()
            if kind.name in _LOADS:
                total += kind.bytes
                awaited |= set(_filled(line, kind.bytes)) if kind.name == "global_load" else set()
                most = max(most, total)
        elif isinstance(line, Label):
            total, awaited = 0, set()
    return most


def _used(line: Instruction, kind: str) -> Iterator[str]:
    """Registers an instruction reads: all but the first operand's, unless that is an address or a store's."""
    for at, operand in enumerate(line.operands):
        if at or kind in _STORES or operand.kind == "address":
            yield from operand.registers()
    if line.guard is not None:
        yield line.guard.register


def _filled(line: Instruction, size_bytes: int) -> Iterator[str]:
    """Registers a load fills: in SASS the one named and those after it."""
    for name in (register for target in line.operands[:1] for register in target.registers()):
        yield name
        if name.startswith("R") and name[1:].isdigit():
            yield from (f"R{int(name[1:]) + more}" for more in range(1, size_bytes // 4))
