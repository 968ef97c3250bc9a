"""What rounding can do to a correct result: the reference in float64 at inputs that are perturbed by a few roundings.

A correct implementation computes at least in float32. Its result is the exact result for inputs that differ from the
given ones by the roundings it makes, about √n of them where it sums n terms. Where terms cancel, this changes the
result by far more than one rounding, and whether PyTorch's own result is off by as much is chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch

from kernellab.accuracy.accumulation import TermCounter
from kernellab.accuracy.errors import measure
from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.repeats import repeats
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import Inputs, generator_for
from kernellab.declaration.op import Op
from kernellab.declaration.passes import NotDifferentiable, is_upstream

_DRAWS = 8
_ROUNDINGS = 4.0  # times √n: rounding errors add up like a random walk (Higham and Mary, 2019); few go further

_GRADIENT_DRAWS = 4  # one would not do: two inputs that happen to move together may leave the gradient unchanged
_ORDINARY_MAGNITUDE = 8.0  # N(0, 1) stays below
_STEADY_ROUNDINGS = 2.0  # about what rounding the inputs does to a product

Reference = Callable[[Inputs], Outputs]  # the reference in float64


class PerturbedOracles:
    """The oracles of one trial at perturbed inputs, computed when they are first needed."""

    def __init__(self, reference64: Reference, inputs: Inputs, oracle: Outputs, roundings: Callable[[], float]) -> None:
        """`roundings`: by how many the inputs are perturbed at most; asked once, when it is needed."""
        self._reference64, self._inputs, self._oracle, self._roundings = reference64, inputs, oracle, roundings
        self._oracles: list[Outputs] | None = None

    def oracles(self) -> list[Outputs]:
        """Empty where they would take too much memory, or where the reference fails at perturbed inputs."""
        if self._oracles is None:
            try:
                self._oracles = self._compute_all()
            except Exception:
                self._oracles = []
        return self._oracles

    def deviation(self, number: int) -> torch.Tensor:
        """How far result `number` moves from the oracle at most, element by element."""
        oracle = self._oracle[number]
        largest = torch.zeros_like(oracle)
        for perturbed in self.oracles():
            distance = (perturbed[number] - oracle).abs()
            largest = torch.maximum(largest, torch.where(distance.isfinite(), distance, 0.0))
        return largest

    def _compute_all(self) -> list[Outputs]:
        roundings = self._roundings()
        return [self._compute(draw, roundings) for draw in repeats(_DRAWS, self._inputs, self._oracle)]

    def _compute(self, draw: int, roundings: float) -> Outputs:
        def step(dtype: torch.dtype) -> float:
            return roundings * min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) / 2

        return self._reference64(perturb(self._inputs, draw, step))


def perturb(inputs: Inputs, draw: int, step: Callable[[torch.dtype], float], *, off_zero: bool = False) -> Inputs:
    """The float inputs in float64, each element changed by a random part of ± `step`, relative to its value.

    With `off_zero`, zeros are changed too, by up to the dtype's smallest normal number.
    """
    perturbed: Inputs = {}
    for name, t in inputs.items():
        if t is None or not t.is_floating_point():
            perturbed[name] = t
            continue
        generator = generator_for(t.device, draw, name)
        part = 2 * torch.rand(t.shape, generator=generator, device=t.device, dtype=torch.float64) - 1
        smallest = torch.finfo(t.dtype).tiny if off_zero else 0.0
        perturbed[name] = t.double() * (1 + step(t.dtype) * part) + smallest * part
    return perturbed


def reduced_terms(op: Op, case: Case) -> int:
    """How many terms the declared reductions of an op add."""
    sizes = (size if isinstance(size, tuple) else (size,) for dim, size in case.dims.items() if dim in op.reduces)
    return math.prod(itertools.chain.from_iterable(sizes))


def input_roundings(op: Op, case: Case, pass_name: str, evaluate: Callable[[], object]) -> float:
    """By how many roundings of its inputs a correct result may be off, given the number of terms it sums.

    Without a declared reduction, `evaluate` evaluates the reference, and the terms that its operators add are counted.
    """
    terms = reduced_terms(op, case)
    if not op.reduces:
        with TermCounter() as counter:
            evaluate()
        terms = counter.most
    if pass_name != "forward":  # the gradient of an input that lacks some dims is summed over them
        differentiable = (op.args[name] for name in op.gradient_args)
        smallest = min((math.prod(op.sizes(arg, case)) for arg in differentiable), default=1)
        terms = max(terms, math.prod(case.shape) // max(1, smallest))
    return _ROUNDINGS * math.sqrt(max(1, terms))


def gradient_scales(gradients64: Reference, inputs: Inputs, gradients: Outputs, *, rowwise: bool) -> list[float]:
    """The least scale for the errors of each gradient, where gradients may be undefined or cancel.

    `gradients` is `gradients64(inputs)`. What changes when the inputs change by a rounding is not counted as an error:
    an implementation that rounds as it computes gives what is right for such inputs. At a kink (ReLU at 0, the maximum
    of equal values) the gradient jumps, and any finite gradient passes. Where little changes, nothing is allowed. The
    exponential of a number that was rounded at magnitude m, such as a saved logsumexp, is off by m roundings: beyond
    ordinary magnitudes this is allowed for as well.
    """
    if not all(bool(t.isfinite().all()) for t in gradients):
        raise NotDifferentiable("its gradient is not finite at such values")
    dtype = next(t.dtype for t in inputs.values() if t is not None and t.is_floating_point())
    magnitude = max(_largest(t) for name, t in inputs.items() if not is_upstream(name))
    scales = [magnitude * _largest(t) if magnitude > _ORDINARY_MAGNITUDE else 0.0 for t in gradients]
    upstream = {name: t for name, t in inputs.items() if is_upstream(name)}
    for draw in range(_GRADIENT_DRAWS):
        nearby = perturb(inputs, draw, lambda dtype: torch.finfo(dtype).eps, off_zero=True)
        for number, (perturbed, exact) in enumerate(zip(gradients64({**nearby, **upstream}), gradients, strict=True)):
            if not bool(perturbed.isfinite().all()):
                raise NotDifferentiable("its gradient is not finite next to such values")
            errors = measure(perturbed.to(dtype), exact, rowwise=rowwise)
            if errors.max > _STEADY_ROUNDINGS:
                scales[number] = max(scales[number], errors.max_abs / torch.finfo(dtype).eps)
    return scales


def _largest(t: torch.Tensor | None) -> float:
    return float(t.abs().max()) if t is not None and t.is_floating_point() and t.numel() else 0.0
