"""How many bytes of global memory a thread requests before it has to wait for any of them.

Loads, in the order of the code, are in flight together until the first use of one of their results, a jump or a label.
A load that one iteration of a loop issues for the next is not recognised. TMA copies are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction, Label, Line, wide_registers

_LOADS = ("global_load", "async_copy")
_STORES = ("global_store", "shared_store", "local_store", "generic_store")
_JUMPS = ("BRA", "EXIT", "RET", "bra", "ret", "exit")


def bytes_in_flight(body: Sequence[Line]) -> int:
    """The largest number of bytes in flight at any point of the code."""
    largest = total = 0
    awaited: set[str] = set()
    for line in body:
        if isinstance(line, Instruction):
            kind = classify(line)
            reads = _registers_read(line, kind.name)
            waits = (line.base in _JUMPS and line.guard is None) or not awaited.isdisjoint(reads)
            # cp.async has no result register: a thread waits for a group of copies.
            waits |= kind.name == "synchronisation" and not awaited
            if waits:
                total, awaited = 0, set()
            if kind.name in _LOADS:
                total += kind.bytes
                if kind.name == "global_load" and line.operands:
                    awaited.update(wide_registers(line.operands[0], kind.bytes))
                largest = max(largest, total)
        elif isinstance(line, Label):
            total, awaited = 0, set()
    return largest


def _registers_read(line: Instruction, kind: str) -> Iterator[str]:
    """The registers of all operands but the first, and of the first if it is an address or the line is a store."""
    for i, operand in enumerate(line.operands):
        if i or kind in _STORES or operand.kind == "address":
            yield from operand.registers()
    if line.guard is not None:
        yield line.guard.register
