"""What the implementations of linear_gelu share: what their passes take and save, and the products of backward.

Forward saves z, the values that GeLU is applied to, in the input's dtype, if a gradient is wanted: its kernel writes
rows × columns more elements, which are kept until backward. To compute z again would save this memory at the price of a
third product in backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from kernellab.ops.gradients import Contract, Given, Passes, Tensors, is_left_out, left_out
from kernellab.ops.layout import row_count
from kernellab.ops.linear import as_matrix, unit_depth


class LinearSlope(NamedTuple):
    dz: torch.Tensor
    dbias: torch.Tensor | None


class LinearForward(Protocol):
    """GeLU of x·Wᵀ + bias for matrices with unit column stride, and with `keep` z. All are contiguous."""

    def __call__(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, approximate: str, *, keep: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]: ...


class Slope(Protocol):
    """The gradient of z, contiguous, and with `with_bias` its sum over the rows, added up in float32 at least."""

    def __call__(self, dy: torch.Tensor, z: torch.Tensor, approximate: str, *, with_bias: bool) -> LinearSlope: ...


def linear_passes(forward: LinearForward, slope: Slope, approximate: str) -> Passes:
    def run_forward(*inputs: torch.Tensor, wanted: Sequence[bool]) -> Tensors:
        x, weight, bias = inputs
        _require(x, weight, bias)
        shape = (*x.shape[:-1], weight.shape[0])
        rows, keep = as_matrix(x), any(wanted)
        unit_bias = None if bias is None else bias.resolve_neg().contiguous()
        if 0 in shape:
            y, z = x.new_empty(len(rows), weight.shape[0]), x.new_empty(len(rows), weight.shape[0])
            return [y.view(shape), z if keep else left_out(x)]
        y, kept = forward(rows, unit_depth(weight), unit_bias, approximate, keep=keep)
        return [y.view(shape), left_out(x) if kept is None else kept]

    def run_backward(*upstream_and_saved: torch.Tensor, wanted: Sequence[bool]) -> Given:
        dy, x, weight, z = upstream_and_saved
        if is_left_out(z):
            raise RuntimeError("linear_gelu was called as if no gradient were wanted: it has saved nothing for one")
        if not z.numel():  # sums over nothing
            of_z = LinearSlope(z, z.new_zeros(z.shape[1]))
        else:
            of_z = slope(dy.reshape(z.shape), z.contiguous(), approximate, with_bias=wanted[2])
        dx = torch.mm(of_z.dz, weight).view(x.shape) if wanted[0] else None
        dweight = torch.mm(of_z.dz.t(), x.reshape(len(z), x.shape[-1])) if wanted[1] else None
        return [dx, dweight, of_z.dbias if wanted[2] else None]

    return Passes(run_forward, run_backward)


def _new_outputs(*inputs: torch.Tensor, wanted: Sequence[bool], **options: object) -> Tensors:
    x, weight, _ = inputs
    y = x.new_empty((*x.shape[:-1], weight.shape[0]))
    return [y, x.new_empty((row_count(x), weight.shape[0])) if any(wanted) else left_out(x)]


def _new_gradients(*upstream_and_saved: torch.Tensor, **options: object) -> Tensors:
    _, x, weight, z = upstream_and_saved
    dx, dweight = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, weight))
    return [dx, dweight, z.new_empty(weight.shape[0])]


CONTRACT = Contract(
    inputs=("x", "weight", "bias"),
    outputs=("y", "z"),
    saved=("x", "weight", "z"),
    differentiated=(("x",), ("weight",), ("bias",)),
    new_outputs=_new_outputs,  # type: ignore[arg-type]  # it takes `wanted`
    new_gradients=_new_gradients,
    forward_takes_wanted=True,
)


def _require(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Raise an error for inputs that no kernel takes."""
    if not x.dim() or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear_gelu takes x [..., K] and a weight [N, K], not {list(x.shape)} and {list(weight.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"linear_gelu takes a bias of {weight.shape[0]} elements, not of shape {list(bias.shape)}")
    for other in (weight, bias):
        if other is not None and other.dtype != x.dtype:
            raise TypeError(f"linear_gelu of {x.dtype} takes no {other.dtype} beside it: convert one of the tensors")
