"""Whether the shapes of an op's results depend on the values of its inputs, as those of `x[x > 0]` do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from kernellab.accuracy.outputs import Outputs
from kernellab.base.operator_mode import AnyOverload, OperatorMode

_CONTENTS = 5  # the shapes of two contents may agree by chance


def shapes_depend_on_values(evaluate: Callable[[int], Outputs]) -> bool:
    """`evaluate` gives the results of the reference for one of several contents of its inputs.

    Most references call no operator whose shape depends on values; for these one evaluation suffices.
    """
    with _DynamicShapes() as mode:
        shapes = [t.shape for t in evaluate(0)]
    return mode.found and any([t.shape for t in evaluate(content)] != shapes for content in range(1, _CONTENTS))


class _DynamicShapes(OperatorMode):
    """While active, notes whether an operator is called whose result may have a shape that depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        self.found |= torch.Tag.dynamic_output_shape in func.tags
        return func(*args, **(kwargs or {}))
