"""Memory around a trial: how much it needs, and poison in the memory that outputs get."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterable, Iterator

import torch
from torch.utils import deterministic

from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.prepared_trial import PreparedTrial
from kernellab.checking.reference_memory import ReferenceMemory
from kernellab.declaration.op import Op
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.layouts import far_span
from kernellab.trials.trial import CONTIGUOUS, Trial

_POISONED_BLOCKS, _POISONED_BYTES = 64, 1 << 26  # per output at most
# Of torch's debug mode for determinism: prefer deterministic algorithms, and warn where there is none. Setting the same
# by `torch.use_deterministic_algorithms` imports torch's compiler, which takes seconds, and changes what it compiles.
_WARN = 1


def memory_needed(
    op: Op, trial: Trial, reference: ReferenceMemory | None = None, *, share_of_a_slice: float = 1.0
) -> int:
    """Bytes that a trial needs at its peak, roughly: several copies of inputs and results, and float64 ones.

    `reference`: what the reference takes, where that is known. It may be far more, as in attention that computes a
    matrix of all pairs. `share_of_a_slice`: how much of the oracle is computed at a time.
    """
    item = {"float64": 8, "float32": 4}.get(trial.case.dtype, 2)
    elements = far = 0
    for name, arg in op.args.items():
        sizes = op.sizes(arg, trial.case)
        elements += math.prod(sizes)
        far += far_span(trial.layouts.get(name, CONTIGUOUS), sizes) * item
    in_float64 = 24 if share_of_a_slice == 1.0 else 0  # bytes per element: of slices only a few exist at a time
    total = elements * (4 * item + in_float64) + far
    if reference is None:
        return total
    oracle = reference.peak
    if share_of_a_slice < 1.0:
        oracle = 2 * reference.results + int(reference.peak * share_of_a_slice)  # slices are joined by copying
    manual = reference.results + reference.peak * item // 8
    return max(total, elements * 3 * item + far + max(oracle, manual))


def may_need_much(op: Op, trial: Trial, limit: int) -> bool:
    """Whether the reference could need more bytes than this, with eight tensors of all pairs of elements in a dim, or
    of all dims: a bound that needs no call of the reference."""
    sizes = [n for size in trial.case.dims.values() for n in (size if isinstance(size, tuple) else (size,))]
    pairs = largest_input(op, trial.case) * max(sizes, default=0)
    return max(pairs, math.prod(sizes)) * 8 * 8 > limit


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


@contextlib.contextmanager
def poisoned_allocations() -> Iterator[None]:
    """While active, torch fills fresh memory with NaN, whatever an allocator finds for it.

    Torch does so only while it prefers deterministic algorithms. It is for implementations that allocate their own
    outputs: PyTorch's own operators would run other kernels than those that are timed.
    """
    before = _determinism()
    torch.set_deterministic_debug_mode(_WARN)
    deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    active = _determinism()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic")
            yield
    finally:
        if _determinism() == active:  # otherwise the implementation has changed it, and the guard of settings says so
            mode, fills = before
            torch.set_deterministic_debug_mode(mode)
            deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


def _determinism() -> tuple[int, bool]:
    fills = bool(deterministic.fill_uninitialized_memory)  # type: ignore[attr-defined]
    return torch.get_deterministic_debug_mode(), fills
