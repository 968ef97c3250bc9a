"""Implementations of kind compile: dropping compiled code, and proof that it ran, as torch.compile may fall back."""

from __future__ import annotations

import sys

import torch

from kernellab.declaration.compiled import Compiled
from kernellab.declaration.op import Op


def reset_compiled(op: Op) -> None:
    """Forget compiled code: functions of one source share one recompile limit, and each case starts afresh."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    for impl in op.impls.values():
        if isinstance(impl.fn, Compiled):
            impl.fn.reset()


def compiled_graphs() -> int:
    """The number of graphs that torch.compile has compiled in this process so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0
