"""Modules for models: those of torch.nn that `kernellab.functional` serves, and fused ones that PyTorch lacks.

A namesake of torch's module is a subclass of it: it has the same parameters, loads the same state dicts and prints the
same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kernellab import functional

__all__ = [
    "GEGLU",
    "GELU",
    "AddRMSNorm",
    "CrossEntropyLoss",
    "DropoutAdd",
    "LayerNorm",
    "LinearGELU",
    "LogSoftmax",
    "RMSNorm",
    "RotaryEmbedding",
    "SiLU",
    "Softmax",
    "SwiGLU",
]


class GELU(nn.GELU):
    """As torch.nn.GELU."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.gelu(input, approximate=self.approximate)


class SiLU(nn.SiLU):
    """As torch.nn.SiLU."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.silu(input, inplace=self.inplace)


class Softmax(nn.Softmax):
    """As torch.nn.Softmax."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(nn.LogSoftmax):
    """As torch.nn.LogSoftmax."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.log_softmax(input, self.dim, _stacklevel=5)


class LayerNorm(nn.LayerNorm):
    """As torch.nn.LayerNorm."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """As torch.nn.RMSNorm."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class AddRMSNorm(nn.RMSNorm):
    """The RMS norm of input + residual, and the sum. It has the parameters of torch.nn.RMSNorm."""

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return functional.add_rms_norm(x, residual, self.normalized_shape, self.weight, self.eps)


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """As torch.nn.CrossEntropyLoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class SwiGLU(nn.Module):
    """silu(gate)·up."""

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        return functional.swiglu(gate, up)


class GEGLU(nn.Module):
    """gelu(gate, approximate)·up."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        return functional.geglu(gate, up, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LinearGELU(nn.Linear):
    """gelu(linear(input), approximate). It has the parameters of torch.nn.Linear."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        approximate: str = "none",
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear_gelu(input, self.weight, self.bias, self.approximate)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, approximate={self.approximate!r}"


class DropoutAdd(nn.Dropout):
    """Dropout of a tensor, added to a residual. In evaluation it adds."""

    def forward(self, input: Tensor, residual: Tensor) -> Tensor:  # type: ignore[override]
        if self.inplace:
            return nn.functional.dropout(input, self.p, self.training, inplace=True) + residual
        return functional.dropout_add(input, residual, self.p, self.training)


class RotaryEmbedding(nn.Module):
    """Turns queries and keys, [batch, heads, positions, columns], by angles that grow with their position.

    The angles of position p are p / base^(2i / columns). Their cosines and sines for `positions` positions are buffers
    that state dicts do not hold. `start` is the position of the first query and key, as with a cache of keys.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, columns: int, positions: int, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        self.columns, self.positions, self.base, self.interleaved = columns, positions, base, interleaved
        frequencies = base ** -(torch.arange(0, columns, 2, dtype=torch.float64) / columns)
        angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, q: Tensor, k: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        end = start + q.shape[2]
        if start < 0 or end > self.positions:
            raise ValueError(f"positions {start} to {end - 1} are outside the {self.positions} that this module has")
        cos, sin = (table[start:end].to(q.dtype) for table in (self.cos, self.sin))
        return functional.rope(q, k, cos, sin, interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.columns}, positions={self.positions}, base={self.base}, interleaved={self.interleaved}"
