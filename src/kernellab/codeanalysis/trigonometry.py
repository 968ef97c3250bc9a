"""The slow path of `sinf`, `cosf` and `tanf`: for large arguments it uses an array in local memory and doubles.

Neither was written by the kernel's author. Only PTX shows it: it names the table of the digits of 2/π that the slow
path reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import PtxFunction

_TABLE = "__cudart_i2opi_f"
_SCALE = "0d3BF921FB54442D19"  # π/2 · 2⁻⁶⁴: the slow path multiplies the remaining digits by it
_ARRAY_BYTES = 28


@dataclass(frozen=True)
class SlowPathUse:
    """Whether the slow path explains all of a kernel's double-precision arithmetic, and all of its local arrays."""

    explains_doubles: bool
    explains_arrays: bool


def find_slow_path(kernel: PtxFunction) -> SlowPathUse:
    code = instructions(kernel.body)
    if not any(operand.name == _TABLE for line in code for operand in line.operands):
        return SlowPathUse(explains_doubles=False, explains_arrays=False)
    doubles = [line for line in code if classify(line).name == "fp64"]
    local = [variable.count for variable in kernel.variables if variable.space == "local"]
    return SlowPathUse(
        explains_doubles=all(any(operand.text == _SCALE for operand in line.operands) for line in doubles),
        explains_arrays=local == [_ARRAY_BYTES],
    )
