"""How often a reference is evaluated again to see what rounding does to it.

Fewer evaluations do for large tensors: among many elements, one is always unlucky.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from kernellab.accuracy.outputs import Outputs
from kernellab.declaration.inputs import Inputs
from kernellab.machine.memory import free_bytes

LARGE = 1 << 21  # elements of an input or a result
_BYTES_PER_ELEMENT = 128  # of memory: about 16 temporary results in float64
_PATIENCE_S = 10.0  # after which no further evaluation is begun


def repeats(count: int, inputs: Inputs, results: Outputs) -> Iterator[int]:
    """The numbers of the evaluations to make: at most `count`, half of that for large tensors that fit in memory."""
    tensors = [t for t in (*inputs.values(), *results) if t is not None]
    if max((t.numel() for t in tensors), default=0) > LARGE:
        needed = _BYTES_PER_ELEMENT * sum(t.numel() for t in tensors)
        count = count // 2 if needed < free_bytes(tensors[0].device) else 0
    start = time.monotonic()
    for number in range(count):
        if time.monotonic() - start > _PATIENCE_S:
            return
        yield number
