"""NaN and inf that an op's definition does not settle: an implementation that has other ones may be as right.

PyTorch's kernels for GPUs have NaN where those for CPUs have none, as the norm of a row with inf. And 0 · inf is NaN
where a reference multiplies by a mask or by a weight of 0: an implementation that skips what counts for nothing has no
NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.repeats import LARGE
from kernellab.declaration.inputs import Inputs, generator_for

Reference = Callable[[Inputs], Outputs]  # the reference in float64

_DRAWS = 6  # weights of one sign show that sign in each; of weights of both signs another one is the largest in some
_SPREAD = 8.0  # of their logarithms
_LINEAR = 1e-9  # what rounding leaves of a difference that should be 0, in float64


class UnsettledValues:
    """Other results that are as right as the oracle in being NaN or inf, computed when they are first needed."""

    def __init__(self, reference64: Reference, inputs: Inputs, oracle: Outputs) -> None:
        self._reference64, self._inputs, self._oracle = reference64, inputs, oracle
        self._alternatives: list[Outputs] | None = None

    def settle(self, number: int, got: torch.Tensor) -> torch.Tensor:
        """The oracle of result `number`; where only another one agrees with `got` in being NaN or inf, that one."""
        settled = self._oracle[number]
        for alternative in self._all():
            other = alternative[number]
            settled = torch.where(_agree(got, settled) | ~_agree(got, other), settled, other)
        return settled

    def _all(self) -> list[Outputs]:
        if self._alternatives is None:
            self._alternatives = []
            tensors = [t for t in (*self._inputs.values(), *self._oracle) if t is not None]
            if max(t.numel() for t in tensors) <= LARGE:
                self._alternatives = [*self._computed(self._on_the_cpu), *self._computed(self._without_zero_products)]
        return self._alternatives

    def _computed(self, compute: Callable[[], Outputs | None]) -> list[Outputs]:
        try:
            outputs = compute()
        except Exception:  # a reference that names its device, or refuses these values
            return []
        shapes = [t.shape for t in self._oracle]
        return [] if outputs is None or [t.shape for t in outputs] != shapes else [outputs]

    def _on_the_cpu(self) -> Outputs | None:
        device = self._oracle[0].device
        if device.type == "cpu":
            return None
        outputs = self._reference64({name: None if t is None else t.cpu() for name, t in self._inputs.items()})
        return tuple(t.to(device) for t in outputs)

    def _without_zero_products(self) -> Outputs | None:
        """What becomes of an input with inf where the results are linear in it: inf with the sign of its weight, NaN
        where weights have both signs, and nothing where all weights are 0. None where several inputs have inf."""
        infinite = [n for n, t in self._inputs.items() if t is not None and t.is_floating_point() and t.isinf().any()]
        if len(infinite) != 1:
            return None
        (name,) = infinite
        values = self._inputs[name]
        assert values is not None
        values = values.double()

        def at(changed: torch.Tensor) -> Outputs:
            return self._reference64({**self._inputs, name: changed})

        def draw(number: int) -> torch.Tensor:
            generator = generator_for(values.device, number, name)
            return torch.randn(values.shape, generator=generator, device=values.device, dtype=torch.float64)

        base = at(torch.zeros_like(values))
        linear = _linear(base, at(draw(0)), at(draw(1)), at(draw(0) + draw(1)))
        rises = [torch.zeros_like(t, dtype=torch.bool) for t in base]
        falls = [torch.zeros_like(t, dtype=torch.bool) for t in base]
        for number in range(_DRAWS):
            weights = (_SPREAD * draw(2 + number)).exp()
            for sign in (1.0, -1.0):
                moved = at(torch.where(values == sign * torch.inf, sign * weights, 0.0))
                for n, (there, here) in enumerate(zip(moved, base, strict=True)):
                    rises[n] |= there > here
                    falls[n] |= there < here
        finite = at(torch.where(values.isinf(), 0.0, values))
        return tuple(
            torch.where(known, _infinite(up, down, t), exact)
            for known, up, down, t, exact in zip(linear, rises, falls, finite, self._oracle, strict=True)
        )


def _agree(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where both are finite, or the same in not being so."""
    other = other.to(one.dtype)
    return (one.isfinite() & other.isfinite()) | (one == other) | (one.isnan() & other.isnan())


def _linear(base: Outputs, first: Outputs, second: Outputs, both: Outputs) -> list[torch.Tensor]:
    """The elements of each result that are linear in an input, given the results at 0, at two values and their sum."""
    masks = []
    for at_zero, at_first, at_second, at_both in zip(base, first, second, both, strict=True):
        off = (at_both - at_first - at_second + at_zero).abs()
        size = at_first.abs() + at_second.abs() + at_zero.abs()
        masks.append(off <= _LINEAR * size)
    return masks


def _infinite(rises: torch.Tensor, falls: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    sign = torch.where(rises, torch.inf, torch.where(falls, -torch.inf, finite))
    return torch.where(rises & falls, torch.nan, sign)
