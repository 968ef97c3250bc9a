"""The op with every manner of launching, loaded once: twice would register its custom operators twice."""

from __future__ import annotations

import functools

from kernellab.declaration.op import Op
from kernellab.declaration.targets import load, resolve
from support.klab import OPFILES


@functools.cache
def captured_op() -> Op:
    return load(resolve(str(OPFILES / "captured.py")))["double"]
