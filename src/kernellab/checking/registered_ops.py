"""Operators registered with torch.library: whether a way is one, and which ones it calls on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_OPERATORS = (CustomOpDef, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
# Of torch 2.11 to 2.13, as its dispatcher lists them in a fresh process; further ones begin with _.
_TORCHS = (
    *("aten", "prim", "prims", "quantized", "quantization", "sparse", "static_runtime", "c10d", "symm_mem", "mkl"),
    *("mkldnn", "mkldnn_prepacked", "onednn", "xnnpack", "inductor", "inductor_prims", "profiler", "debugprims"),
    *("rngprims", "debug_mode_ops", "export", "higher_order"),
)


@dataclass(frozen=True)
class Seen:
    """An operator with copies of the first arguments it was called with."""

    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def is_operator(fn: Any) -> bool:
    return isinstance(fn, _OPERATORS)


class Noted(TorchDispatchMode):
    """Notes the operators called that are not torch's own."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: saying yes imports torch's compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, Seen] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        space = func.namespace
        if space not in _TORCHS and not space.startswith("_") and str(func) not in self.calls:
            args_seen, kwargs_seen = tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
            self.calls[str(func)] = Seen(func, args_seen, kwargs_seen)
        return func(*args, **kwargs)
