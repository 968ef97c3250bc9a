"""Operators registered with torch.library: whether an implementation is one, and which ones it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._pytree import tree_map_only

from kernellab.base.operator_mode import AnyOverload, OperatorMode

Operator: TypeAlias = CustomOpDef | AnyOverload | OpOverloadPacket[..., object]  # type: ignore[explicit-any]

# The namespaces of torch 2.11 to 2.13, as its dispatcher lists them in a fresh process; others begin with _.
_TORCH_NAMESPACES = (
    *("aten", "prim", "prims", "quantized", "quantization", "sparse", "static_runtime", "c10d", "symm_mem", "mkl"),
    *("mkldnn", "mkldnn_prepacked", "onednn", "xnnpack", "inductor", "inductor_prims", "profiler", "debugprims"),
    *("rngprims", "debug_mode_ops", "export", "higher_order"),
)


@dataclass(frozen=True)
class OperatorCall:
    """An operator with copies of the arguments of its first call."""

    operator: AnyOverload
    args: tuple[object, ...]
    kwargs: dict[str, object]


def as_operator(fn: object) -> Operator | None:
    """The function itself if it is a registered operator."""
    return fn if isinstance(fn, (CustomOpDef, OpOverload, OpOverloadPacket)) else None


class OperatorRecorder(OperatorMode):
    """While active, records the first call of each operator that is not torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, OperatorCall] = {}

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        options = dict(kwargs or {})
        namespace = func.namespace
        if namespace not in _TORCH_NAMESPACES and not namespace.startswith("_") and str(func) not in self.calls:
            copied_args, copied_options = tree_map_only(torch.Tensor, _copy, (args, options))
            self.calls[str(func)] = OperatorCall(func, copied_args, copied_options)
        return func(*args, **options)


def _copy(t: torch.Tensor) -> torch.Tensor:
    return t.detach().clone()
