"""Ways that torch.compile makes: starting afresh, and proof that compiled code ran. It falls back in silence."""

from __future__ import annotations

import sys

import torch

from kernellab.declaration.compiled import Compiled
from kernellab.declaration.op import Op


def forget(op: Op) -> None:
    """Compiled functions of one source share one recompile limit; each case starts afresh."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    for impl in op.impls.values():
        if isinstance(impl.fn, Compiled):
            impl.fn.reset()


def graphs() -> int:
    """Graphs torch.compile has made in this process so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0
