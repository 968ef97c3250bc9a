"""How far a gradient moves when its inputs move by a rounding: at a kink, or where terms cancel, right ways differ.

At ordinary values nobody needs this. It lets gradients be tried at values where some are not defined.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernellab.compare import measure
from kernellab.inputs import Inputs, generator_for
from kernellab.passes import NotDifferentiable, is_upstream

Gradients = tuple[torch.Tensor, ...]

_DRAWS = 4  # two inputs that happen to move together may change nothing
_STEADY = 2.0  # roundings: about what rounding the inputs does to a product


def floors(gradients: Callable[[Inputs], Gradients], inputs: Inputs, at: Gradients, *, rowwise: bool) -> list[float]:
    """The least scale of each gradient's errors. `at` is `gradients(inputs)`, in float64.

    A way that rounds as it goes gives what is right for inputs a rounding away, so what that alone changes is not
    held against it. ReLU at 0, or the maximum of equal values, jump: there a gradient need only be finite. Where
    nothing much changes, nothing is allowed.
    """
    if not all(bool(t.isfinite().all()) for t in at):
        raise NotDifferentiable("its gradient is not finite at such values")
    dtype = next(t.dtype for t in inputs.values() if t is not None and t.is_floating_point())
    found = [0.0] * len(at)
    for draw in range(_DRAWS):
        for number, (near, there) in enumerate(zip(gradients(_near(inputs, draw)), at, strict=True)):
            if not bool(near.isfinite().all()):
                raise NotDifferentiable("its gradient is not finite next to such values")
            errors = measure(near.to(dtype), there, rowwise=rowwise)
            if errors.max > _STEADY:
                found[number] = max(found[number], errors.max_abs / torch.finfo(dtype).eps)
    return found


def _near(inputs: Inputs, draw: int) -> Inputs:
    """The op's own float inputs up to a rounding away, up or down, and off 0."""
    moved: Inputs = {}
    for name, x in inputs.items():
        if x is None or is_upstream(name) or not x.is_floating_point():
            moved[name] = x
            continue
        generator, info = generator_for(x.device, draw, name), torch.finfo(x.dtype)
        steps = 2 * torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) - 1
        moved[name] = x.double() * (1 + info.eps * steps) + info.tiny * steps
    return moved
