"""The registers that a wide load fills."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.machinecode.instructions import Operand

_REGISTER_BYTES = 4


def wide_registers(target: Operand, size_bytes: int) -> Iterator[str]:
    """Registers a load of this size fills. SASS names the first; the load fills the ones after it too."""
    for name in target.registers():
        yield name
        if name.startswith("R") and name[1:].isdigit():
            yield from (f"R{int(name[1:]) + more}" for more in range(1, size_bytes // _REGISTER_BYTES))
