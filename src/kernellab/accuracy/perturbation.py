"""What rounding inside a right way may do to its result: the oracle at inputs a few roundings away.

A right way computes in float32 at least, and its result is the exact one for inputs that are off by the roundings it
makes: by about √n of them where n terms are summed. Where terms cancel, that is far more than a rounding of the
result, and whether PyTorch's own result is off as much is luck.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch

from kernellab.declaration.case import Case
from kernellab.declaration.inputs import Inputs, generator_for
from kernellab.declaration.op import Op

_DRAWS = 8
_ROUNDINGS = 4.0  # times √n: rounding errors add up like a random walk, Higham and Mary (2019), and few go further
_MOST = 1 << 21  # elements of an input or a result

Outputs = tuple[torch.Tensor, ...]


class Nearby:
    """The oracles of one trial at inputs nearby, computed when they are first asked for."""

    def __init__(
        self, reference64: Callable[[Inputs], Outputs], inputs: Inputs, oracle: Outputs, roundings: float
    ) -> None:
        """`roundings` is how many a way may be off, in its inputs."""
        self._reference64, self._inputs, self._oracle, self._roundings = reference64, inputs, oracle, roundings
        self._found: list[Outputs] | None = None

    def oracles(self) -> list[Outputs]:
        """None at all where they would take too much memory, or where the reference fails there."""
        if self._found is None:
            try:
                self._found = [self._at(draw) for draw in range(_DRAWS)] if self._small() else []
            except Exception:
                self._found = []
        return self._found

    def apart(self, number: int) -> torch.Tensor:
        """How far result `number` comes from the oracle in one of them, element by element."""
        oracle = self._oracle[number]
        most = torch.zeros_like(oracle)
        for other in self.oracles():
            off = (other[number] - oracle).abs()
            most = torch.maximum(most, torch.where(off.isfinite(), off, 0.0))
        return most

    def _small(self) -> bool:
        return all(t is None or t.numel() <= _MOST for t in (*self._inputs.values(), *self._oracle))

    def _at(self, draw: int) -> Outputs:
        def step(dtype: torch.dtype) -> float:
            return self._roundings * min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) / 2

        return self._reference64(moved(self._inputs, draw, step))


def moved(inputs: Inputs, draw: int, step: Callable[[torch.dtype], float], *, off_zero: bool = False) -> Inputs:
    """The float inputs in float64, each element up to `step` of itself away, up or down; 0 too with `off_zero`."""
    found: Inputs = {}
    for name, t in inputs.items():
        if t is None or not t.is_floating_point():
            found[name] = t
            continue
        random = torch.rand(
            t.shape, generator=generator_for(t.device, draw, name), device=t.device, dtype=torch.float64
        )
        up_or_down = 2 * random - 1
        least = torch.finfo(t.dtype).tiny if off_zero else 0.0
        found[name] = t.double() * (1 + step(t.dtype) * up_or_down) + least * up_or_down
    return found


def roundings(op: Op, case: Case, of: str) -> float:
    """How many roundings of its inputs a right way may be off, by the number of terms it sums."""
    sizes = (size if isinstance(size, tuple) else (size,) for dim, size in case.dims.items() if dim in op.reduces)
    terms = math.prod(itertools.chain.from_iterable(sizes))
    if of != "forward":  # the gradient of an input that lacks some dims is summed over these
        floats = (arg for arg in op.args.values() if not arg.is_index)
        least = min((math.prod(op.sizes(arg, case)) for arg in floats), default=1)
        terms = max(terms, math.prod(case.shape) // max(1, least))
    return _ROUNDINGS * math.sqrt(max(1, terms))
