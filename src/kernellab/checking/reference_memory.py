"""How much memory the reference takes at a trial, without running it there.

The reference runs at a few small sizes, and every tensor it makes is counted as long as it lives. The bytes that live
after each of its operators are polynomials of the sizes, so that three sizes of a dim determine them for any size.
Where it seems not to fit, it also runs on meta tensors, where nothing is computed: code may do something else for
large sizes. That alone would not do: importing what meta tensors need takes a second, and some operators allocate more
there than on the device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from kernellab.accuracy.oracle import pass_to_judge
from kernellab.base.operator_mode import AnyOverload, OperatorMode
from kernellab.declaration.case import Case, Size
from kernellab.declaration.inputs import Inputs, make_inputs, upcast
from kernellab.declaration.op import Op
from kernellab.declaration.passes import gradients
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.domain import is_defined
from kernellab.trials.trial import Trial

_MOST_DIMS = 3  # that are extrapolated at once: each needs three sizes
_LONG_DIM = 256  # shorter dims keep their size
_LEAST_SIZE = 8  # of a dim that is extrapolated
_MEASURED_ELEMENTS = 1 << 20  # of an input at the sizes that are measured


@dataclass(frozen=True)
class ReferenceMemory:
    """Bytes in float64: at the peak, its inputs and results included, and of the results alone."""

    peak: int
    results: int


@dataclass(frozen=True)
class _Timeline:
    """The bytes that live after each operator, and those of the results."""

    live: Sequence[int]
    results: int


class ReferenceMemoryEstimator:
    """Estimates for the trials of one op. Trials of the same case and pass share one estimate."""

    def __init__(self, op: Op, *, seed: int, device: torch.device) -> None:
        self._op, self._seed, self._device = op, seed, device
        self._estimates: dict[tuple[str, str, tuple[str, ...]], ReferenceMemory | None] = {}

    def estimate(self, trial: Trial, fits: Callable[[ReferenceMemory], bool]) -> ReferenceMemory | None:
        """The smaller of two estimates where one does not fit; None where there is none."""
        key = trial.case.key, trial.pass_name, tuple(trial.wrt)
        if key not in self._estimates:
            estimate = self._extrapolate(trial)
            if estimate is None or not fits(estimate):
                on_meta = self._on_meta_tensors(trial)
                estimate = min(filter(None, (estimate, on_meta)), key=lambda memory: memory.peak, default=None)
            self._estimates[key] = estimate
        return self._estimates[key]

    def _on_meta_tensors(self, trial: Trial) -> ReferenceMemory | None:
        inputs: Inputs = {}
        for name, arg in self._op.args.items():
            given = not arg.optional or trial.case.options.get(name, False)
            declared: torch.dtype = getattr(torch, self._op.dtype_of(arg, trial.case))
            dtype = torch.float64 if declared.is_floating_point else declared
            sizes = self._op.sizes(arg, trial.case)
            inputs[name] = torch.empty(sizes, dtype=dtype, device="meta") if given else None
        try:
            timeline = self._measure(trial, trial.case, inputs)
        except Exception:  # code that depends on values, or an operator without a form for meta tensors
            return None
        return ReferenceMemory(max(timeline.live), timeline.results)

    def _measure(self, trial: Trial, case: Case, inputs: Inputs) -> _Timeline:
        """Call the reference on these inputs and count what it allocates."""
        pass_ = pass_to_judge(trial.pass_name, trial.wrt)
        with LiveTensors([t for t in inputs.values() if t is not None]) as tensors:
            if trial.pass_name == "forward":
                results = pass_.compute(self._op, self._op.reference, inputs, case)
            else:
                outputs, leaves, _ = pass_.graph(self._op, self._op.reference, inputs, case)
                upstream = [torch.empty_like(r) if r.is_floating_point() else None for r in outputs]
                double = trial.pass_name == "double backward"
                results = outputs, gradients(outputs, leaves, upstream, create_graph=double)
        factor = 2 if trial.pass_name == "double backward" else 1  # what the second backward needs is about the same
        returned = [t for t in tree_leaves(results) if isinstance(t, torch.Tensor)]
        return _Timeline([factor * live for live in tensors.timeline], _bytes(returned))

    # Extrapolating -------------------------------------------------------------------------------------

    def _extrapolate(self, trial: Trial) -> ReferenceMemory | None:
        dims = self._longest_dims(trial.case)
        points = {dim: _smaller_sizes(_length(trial.case.dims[dim])) for dim in dims}
        timelines: dict[tuple[int, ...], _Timeline] = {}
        try:
            for sizes in itertools.product(*points.values()):
                resized = {dim: _with_length(trial.case.dims[dim], n) for dim, n in zip(dims, sizes, strict=True)}
                case = trial.case.with_(dims={**trial.case.dims, **resized})
                if not is_defined(self._op, case) or largest_input(self._op, case) > _MEASURED_ELEMENTS:
                    return None
                inputs = upcast(make_inputs(self._op, case, self._seed, self._device))
                timelines[sizes] = self._measure(trial, case, inputs)
        except Exception:  # a reference that fails at small sizes
            return None
        target = [_length(trial.case.dims[dim]) for dim in dims]

        def at_target(values: Mapping[tuple[int, ...], int]) -> int:
            return _interpolate(values, list(points.values()), target)

        if len({len(timeline.live) for timeline in timelines.values()}) == 1:
            steps = range(len(next(iter(timelines.values())).live))
            peak = max(at_target({sizes: timelines[sizes].live[step] for sizes in timelines}) for step in steps)
        else:  # a loop over a dim
            peak = at_target({sizes: max(timeline.live) for sizes, timeline in timelines.items()})
        return ReferenceMemory(peak, at_target({sizes: timeline.results for sizes, timeline in timelines.items()}))

    def _longest_dims(self, case: Case) -> list[str]:
        lengths = {dim: _length(size) for dim, size in case.dims.items()}
        long = [dim for dim, length in lengths.items() if length > max(_LONG_DIM, *_smaller_sizes(length))]
        return sorted(long, key=lambda dim: -lengths[dim])[:_MOST_DIMS]


def _length(size: Size) -> int:
    return max(size, default=0) if isinstance(size, tuple) else size


def _with_length(size: Size, length: int) -> Size:
    """A size of another length; of several leading dims, the longest changes."""
    if not isinstance(size, tuple):
        return length
    at = size.index(max(size))
    return (*size[:at], length, *size[at + 1 :])


def _smaller_sizes(size: int) -> tuple[int, int, int]:
    """Three sizes with the power of two, up to 128, that divides the size: the op may be defined for multiples only."""
    least = max(_LEAST_SIZE, math.gcd(size, 128))
    return least, 2 * least, 4 * least


def _interpolate(values: Mapping[tuple[int, ...], int], points: Sequence[Sequence[int]], target: Sequence[int]) -> int:
    """The polynomial through these values, of degree two in each dim, at the target; no less than the largest value."""
    total = 0.0
    for sizes, value in values.items():
        weight = 1.0
        for n, known, wanted in zip(sizes, points, target, strict=True):
            weight *= math.prod((wanted - other) / (n - other) for other in known if other != n)
        total += weight * value
    return max(round(total), max(values.values()))


class LiveTensors(OperatorMode):
    """While active, counts the bytes of the tensors that are made and still live: `timeline`, operator by operator."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.timeline: list[int] = []
        self._count(inputs)

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **dict(kwargs or {}))
        self._count([t for t in tree_leaves(result) if isinstance(t, torch.Tensor)])
        return result

    def _count(self, tensors: Sequence[torch.Tensor]) -> None:
        for t in tensors:
            storage = t.untyped_storage()
            reference = StorageWeakRef(storage)
            self._storages[reference.cdata] = reference, storage.nbytes()
        self._storages = {key: entry for key, entry in self._storages.items() if not entry[0].expired()}
        self.timeline.append(sum(size for _, size in self._storages.values()))


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())
