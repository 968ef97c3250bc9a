"""Memory around a trial: how much it needs, and poison in the free memory that outputs are likely to get."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable

import torch

from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.prepared_trial import PreparedTrial
from kernellab.declaration.op import Op
from kernellab.trials.layouts import far_span
from kernellab.trials.trial import CONTIGUOUS, Trial

_POISONED_BLOCKS, _POISONED_BYTES = 64, 1 << 26  # per output at most


def memory_needed(op: Op, trial: Trial) -> int:
    """Bytes that a trial needs at its peak, roughly: several copies of inputs and results, and float64 ones."""
    item = {"float64": 8, "float32": 4}.get(trial.case.dtype, 2)
    total = 0
    for name, arg in op.args.items():
        sizes = op.sizes(arg, trial.case)
        total += math.prod(sizes) * (4 * item + 24)
        total += far_span(trial.layouts.get(name, CONTIGUOUS), sizes) * item
    return total


def bytes_held(prepared: PreparedTrial) -> int:
    inputs = [t for t in (*prepared.inputs.values(), *prepared.pristine.values()) if t is not None]
    return total_bytes((*inputs, *prepared.oracle, *prepared.peer))


def total_bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def poison_free_memory(outputs: Outputs) -> None:
    """Fill the memory that outputs like these are likely to get with NaN.

    A correct implementation has just freed it, and one that does not write its output would find the answer there.
    Allocators return the same blocks for the same sizes; an implementation may take a few before its output.
    """
    blocks: list[torch.Tensor] = []
    with contextlib.suppress(RuntimeError):  # memory is short: then little of it is free
        for out in outputs:
            if out.is_floating_point():
                copies = max(1, min(_POISONED_BLOCKS, _POISONED_BYTES // max(1, out.numel() * out.element_size())))
                blocks += [torch.full_like(out, float("nan")) for _ in range(copies)]
