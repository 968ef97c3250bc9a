"""An implementation's results as plain tensors, and what can be compared without an oracle: shapes, bits, memory."""

from __future__ import annotations

import math

import torch

from kernellab.declaration.inputs import Inputs
from kernellab.declaration.passes import is_upstream

Outputs = tuple[torch.Tensor, ...]


class Wrong(Exception):
    """A result is wrong; the message says how. `excess`: the error as a multiple of the limit."""

    def __init__(self, message: str, excess: float = math.inf) -> None:
        super().__init__(message)
        self.excess = excess


def as_tensors(result: object) -> Outputs:
    """A result as a tuple of plain dense tensors; raises Wrong for anything else."""
    items = result if isinstance(result, (tuple, list)) else (result,)
    tensors = tuple(item for item in items if isinstance(item, torch.Tensor))
    if not tensors or len(tensors) != len(items):
        kind = "None" if result is None else f"a {type(result).__name__}"
        raise Wrong(f"returned {kind}, not a tensor")
    for t in tensors:
        if type(t) not in (torch.Tensor, torch.nn.Parameter):  # a subclass may compute when it is read
            raise Wrong(f"returned a {type(t).__name__}, not a plain tensor")
        if t.layout is not torch.strided:
            raise Wrong(f"returned a {str(t.layout).removeprefix('torch.')} tensor, not a dense one")
        if t.numel() and not t.untyped_storage().nbytes():
            raise Wrong("returned a tensor whose memory is gone")
    return tensors


def require_same_shapes(outputs: Outputs, expected: Outputs) -> None:
    if len(outputs) != len(expected):
        raise Wrong(f"returned {len(outputs)} tensors, should be {len(expected)}")
    for got, want in zip(outputs, expected, strict=True):
        if got.shape != want.shape:
            raise Wrong(f"shape {_x(got.shape)}, should be {_x(want.shape)}")


def bitwise_equal(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Compares bits, so that NaN equals NaN and −0 does not equal 0."""
    if a is None or b is None:
        return a is b
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.shape == b.shape and torch.equal(a.view(integer), b.view(integer))


def inputs_sharing_memory(outputs: Outputs, inputs: Inputs) -> list[str]:
    """The inputs whose memory an output lies in. Upstream gradients may be passed on and do not count."""
    # A tensor known to be zero, as some gradients are, has no memory at all.
    addresses = {t.untyped_storage().data_ptr() for t in outputs if t.numel() and not t._is_zerotensor()}
    own = {name: t for name, t in inputs.items() if t is not None and not is_upstream(name)}
    return [name for name, t in own.items() if t.untyped_storage().data_ptr() in addresses]


def _x(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "scalar"
