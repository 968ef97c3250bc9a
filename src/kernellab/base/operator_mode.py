"""The base of what observes or changes each operator that torch calls."""

from __future__ import annotations

from typing import TypeAlias

from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

# The parameters of an operator are its own, which only `...` can say.
AnyOverload: TypeAlias = OpOverload[..., object]  # type: ignore[explicit-any]


class OperatorMode(TorchDispatchMode):
    """While active, every operator goes through `__torch_dispatch__` of the subclass."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: True would import torch's compiler at the first operator, which takes seconds."""
        return False
