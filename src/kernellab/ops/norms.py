"""Norms along the last dim: their passes, and the tensors that a kernel of any language gets.

The kernels, in norms_triton.py, norms_cuda.py and norms_cpp.py, compute `normalized·weight + bias`. For each row they
save the mean, where the norm subtracts it, and the reciprocal of the deviation: backward does not compute them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from kernellab.ops.gradients import Contract, Given, Passes, Tensors
from kernellab.ops.layout import Grid, empty_rows, keep_channels_last, last_dim, row_count


class NormForward(NamedTuple):
    """The tensors of a forward pass, `grid.strides` in this order: x, the residual if there is one, y, and then their
    sum. A parameter has unit stride. `mean` is None where the norm does not subtract it."""

    x: torch.Tensor
    residual: torch.Tensor | None
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    y: torch.Tensor
    total: torch.Tensor | None
    mean: torch.Tensor | None
    rstd: torch.Tensor
    eps: float
    grid: Grid


class NormBackward(NamedTuple):
    """The tensors of a backward pass, `grid.strides` in this order: dy, x, dtotal if there is one, dx. `dtotal`, the
    gradient of the sum of x and the residual, is added to dx. `dweight` and `dbias` are None where they are not
    wanted."""

    dy: torch.Tensor
    x: torch.Tensor
    dtotal: torch.Tensor | None
    weight: torch.Tensor | None
    mean: torch.Tensor | None
    rstd: torch.Tensor
    dx: torch.Tensor
    dweight: torch.Tensor | None
    dbias: torch.Tensor | None
    grid: Grid


class NormKernels(Protocol):
    """An implementation: fills the tensors of a pass. Called only where there is at least one element."""

    centred: bool  # whether the norm subtracts the mean

    def check(self, x: torch.Tensor) -> None:
        """Raise TypeError for a dtype without a kernel."""

    def forward(self, pass_: NormForward) -> None: ...

    def backward(self, pass_: NormBackward) -> None: ...


def norm_passes(kernels: NormKernels, eps: float, *, keep_order: bool = False) -> Passes:
    """The norm of every row. With `keep_order`, the result of a channels-last tensor is channels-last."""

    def forward(*inputs: torch.Tensor) -> Tensors:
        x, *parameters = inputs
        _check(kernels, x, *parameters)
        weight, bias = [*parameters, None][:2]
        done = _forward(kernels, x, None, weight, bias, eps)
        y = keep_channels_last(x, done.y) if keep_order else done.y
        return [y, *(t for t in (done.mean, done.rstd) if t is not None)]

    def backward(*upstream_and_saved: torch.Tensor, wanted: Sequence[bool]) -> Given:
        dy, x, weight, *statistics = upstream_and_saved
        mean = statistics[0] if kernels.centred else None
        done = _backward(kernels, dy, None, x, weight, mean, statistics[-1], wanted[1:])
        return [done.dx, done.dweight, done.dbias][: len(wanted)]

    return Passes(forward, backward)


def add_norm_passes(kernels: NormKernels, eps: float) -> Passes:
    """The norm of every row of x + residual, and the sum itself, rounded to its dtype before it is normalized."""

    def forward(*inputs: torch.Tensor) -> Tensors:
        x, residual, weight = inputs
        _check(kernels, x, weight)
        _check_dtype(x, residual)
        if x.shape != residual.shape:
            shapes = f"{tuple(x.shape)}, the residual {tuple(residual.shape)}"
            raise ValueError(f"x has the shape {shapes}: they must be equal")
        done = _forward(kernels, x, residual, weight, None, eps)
        assert done.total is not None
        return [done.y, done.total, done.rstd]

    def backward(*upstream_and_saved: torch.Tensor | None, wanted: Sequence[bool]) -> Given:
        dy, dtotal, total, weight, rstd = upstream_and_saved
        assert total is not None
        assert rstd is not None
        if dy is None:
            dy = torch.zeros_like(total)
        done = _backward(kernels, dy, dtotal, total, weight, None, rstd, wanted[1:])
        return [done.dx, done.dweight]

    return Passes(forward, backward)


def _check(kernels: NormKernels, x: torch.Tensor, *parameters: torch.Tensor | None) -> None:
    kernels.check(x)
    for parameter in parameters:
        if parameter is not None:
            _check_dtype(x, parameter)
            if parameter.shape != x.shape[-1:]:
                shape = tuple(parameter.shape)
                raise ValueError(f"a norm over {x.shape[-1]} columns takes no parameter of shape {shape}")


def _check_dtype(x: torch.Tensor, other: torch.Tensor) -> None:
    if other.dtype != x.dtype:
        raise TypeError(f"the norm of {x.dtype} takes no {other.dtype} beside it: convert one of the tensors")


def _forward(
    kernels: NormKernels,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> NormForward:
    inputs = [x] if residual is None else [x, residual]
    tensors, grid = last_dim(*inputs, outputs=len(inputs))
    results = tensors[len(inputs) :]
    pass_ = NormForward(
        tensors[0],
        None if residual is None else tensors[1],
        _unit_stride(weight),
        _unit_stride(bias),
        results[0],
        None if residual is None else results[1],
        _new_statistics(x) if kernels.centred else None,
        _new_statistics(x),
        eps,
        grid,
    )
    if grid.rows * grid.cols:
        kernels.forward(pass_)
    return pass_


def _backward(
    kernels: NormKernels,
    dy: torch.Tensor,
    dtotal: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor | None,
    rstd: torch.Tensor,
    wanted: Sequence[bool],
) -> NormBackward:
    """`wanted`: whether the gradients of the parameters are, of the weight and, where the norm has one, of the bias."""
    inputs = [dy, x] if dtotal is None else [dy, x, dtotal]
    tensors, grid = last_dim(*inputs)
    wants_weight, wants_bias = [*wanted, False][:2]
    pass_ = NormBackward(
        tensors[0],
        tensors[1],
        None if dtotal is None else tensors[2],
        _unit_stride(weight),
        mean,
        rstd,
        tensors[-1],
        x.new_empty(grid.cols) if wants_weight and weight is not None else None,
        x.new_empty(grid.cols) if wants_bias else None,
        grid,
    )
    if grid.rows * grid.cols:
        kernels.backward(pass_)
    else:  # a sum over no rows
        for gradient in (pass_.dweight, pass_.dbias):
            if gradient is not None:
                gradient.zero_()
    return pass_


def _new_statistics(x: torch.Tensor) -> torch.Tensor:
    """A number for each row."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.empty(row_count(x), dtype=dtype, device=x.device)


def _unit_stride(parameter: torch.Tensor | None) -> torch.Tensor | None:
    return None if parameter is None else parameter.resolve_neg().contiguous()


# What the passes of each norm take and return ----------------------------------------------------------


def _new_layer_norm(*inputs: torch.Tensor, **options: object) -> Tensors:
    return [empty_rows(inputs[0]), _new_statistics(inputs[0]), _new_statistics(inputs[0])]


def _new_rms_norm(*inputs: torch.Tensor, **options: object) -> Tensors:
    return [keep_channels_last(inputs[0], empty_rows(inputs[0])), _new_statistics(inputs[0])]


def _new_add_rms_norm(*inputs: torch.Tensor, **options: object) -> Tensors:
    return [empty_rows(inputs[0]), empty_rows(inputs[0]), _new_statistics(inputs[0])]


def _new_norm_gradients(*upstream_and_saved: torch.Tensor, **options: object) -> Tensors:
    x = upstream_and_saved[1]
    return [empty_rows(x), x.new_empty(x.shape[-1]), x.new_empty(x.shape[-1])]


def _new_add_norm_gradients(*upstream_and_saved: torch.Tensor, **options: object) -> Tensors:
    total = upstream_and_saved[2]
    return [empty_rows(total), total.new_empty(total.shape[-1])]


LAYER_NORM_CONTRACT = Contract(
    inputs=("x", "weight", "bias"),
    outputs=("y", "mean", "rstd"),
    saved=("x", "weight", "mean", "rstd"),
    differentiated=(("x",), ("weight",), ("bias",)),
    new_outputs=_new_layer_norm,
    new_gradients=_new_norm_gradients,
)
RMS_NORM_CONTRACT = Contract(
    inputs=("x", "weight"),
    outputs=("y", "rstd"),
    saved=("x", "weight", "rstd"),
    differentiated=(("x",), ("weight",)),
    new_outputs=_new_rms_norm,
    new_gradients=lambda *tensors, **_: _new_norm_gradients(*tensors)[:2],
)
ADD_RMS_NORM_CONTRACT = Contract(
    inputs=("x", "residual", "weight"),
    outputs=("y", "total", "rstd"),
    saved=("total", "weight", "rstd"),
    differentiated=(("x", "residual"), ("weight",)),
    new_outputs=_new_add_rms_norm,
    new_gradients=_new_add_norm_gradients,
    results=2,
    takes_missing_gradients=True,
    sizing_place=2,
)
