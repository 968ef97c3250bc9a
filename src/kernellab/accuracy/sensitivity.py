"""How far a gradient moves when its inputs move by a rounding: at a kink, or where terms cancel, right ways differ.

At ordinary values nobody needs this. It lets gradients be tried at values where some are not defined.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernellab.accuracy.errors import measure
from kernellab.accuracy.perturbation import moved
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.passes import NotDifferentiable, is_upstream

Gradients = tuple[torch.Tensor, ...]

_DRAWS = 4  # two inputs that happen to move together may change nothing
_ORDINARY = 8.0  # N(0, 1) stays below
_STEADY = 2.0  # roundings: about what rounding the inputs does to a product


def floors(gradients: Callable[[Inputs], Gradients], inputs: Inputs, at: Gradients, *, rowwise: bool) -> list[float]:
    """The least scale of each gradient's errors. `at` is `gradients(inputs)`, in float64.

    A way that rounds as it goes gives what is right for inputs a rounding away, so what that alone changes is not
    held against it. ReLU at 0, or the maximum of equal values, jump: there a gradient need only be finite. Where
    nothing much changes, nothing is allowed. And exp of a number that was rounded at magnitude m, as a saved
    logsumexp is, is off by m roundings: beyond ordinary magnitudes that counts too.
    """
    if not all(bool(t.isfinite().all()) for t in at):
        raise NotDifferentiable("its gradient is not finite at such values")
    dtype = next(t.dtype for t in inputs.values() if t is not None and t.is_floating_point())
    magnitude = max(_largest(t) for name, t in inputs.items() if not is_upstream(name))
    found = [magnitude * _largest(t) if magnitude > _ORDINARY else 0.0 for t in at]
    upstream = {name: t for name, t in inputs.items() if is_upstream(name)}

    def near(draw: int) -> Inputs:
        return moved(inputs, draw, lambda dtype: torch.finfo(dtype).eps, off_zero=True)

    for draw in range(_DRAWS):
        for number, (beside, there) in enumerate(zip(gradients({**near(draw), **upstream}), at, strict=True)):
            if not bool(beside.isfinite().all()):
                raise NotDifferentiable("its gradient is not finite next to such values")
            errors = measure(beside.to(dtype), there, rowwise=rowwise)
            if errors.max > _STEADY:
                found[number] = max(found[number], errors.max_abs / torch.finfo(dtype).eps)
    return found


def _largest(t: torch.Tensor | None) -> float:
    return float(t.abs().max()) if t is not None and t.is_floating_point() and t.numel() else 0.0
