"""The op that launches kernels in every possible way. It is loaded once, because its operators register only once."""

from __future__ import annotations

import functools

from kernellab.declaration.op import Op
from kernellab.declaration.targets import load, resolve
from support.klab import OPFILES


@functools.cache
def captured_op() -> Op:
    return load(resolve(str(OPFILES / "captured.py")))["double"]
