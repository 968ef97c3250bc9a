"""What `sinf`, `cosf` and `tanf` bring along: for large arguments an array in local memory, and a product in double.

Neither is the author's doing. PTX alone tells: it names the table of the digits of 2/π that this slow path reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import Entry

_TABLE = "__cudart_i2opi_f"
_SCALE = "0d3BF921FB54442D19"  # π/2 · 2⁻⁶⁴, by which the slow path multiplies the digits that are left
_ARRAY_BYTES = 28


@dataclass(frozen=True)
class Trigonometry:
    """Whether all of a kernel's arithmetic in double, and all of its local arrays, are the slow path's."""

    doubles: bool
    arrays: bool


def trigonometry(entry: Entry) -> Trigonometry:
    code = instructions(entry.body)
    if not any(operand.name == _TABLE for line in code for operand in line.operands):
        return Trigonometry(doubles=False, arrays=False)
    doubles = [line for line in code if classify(line).name == "fp64"]
    local = [variable.count for variable in entry.variables if variable.space == "local"]
    return Trigonometry(
        doubles=all(any(operand.text == _SCALE for operand in line.operands) for line in doubles),
        arrays=local == [_ARRAY_BYTES],
    )
