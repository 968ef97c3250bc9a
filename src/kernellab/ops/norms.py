"""Norms along the last dim: their autograd, and the tensors that a kernel of any language gets.

The kernels, in norms_triton.py, norms_cuda.py and norms_cpp.py, compute `normalized·weight + bias`. For each row they
save the mean, where the norm subtracts it, and the reciprocal of the deviation: backward does not compute them again.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch

from kernellab.ops.gradients import Saved, differentiable
from kernellab.ops.layout import Grid, last_dim


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
    gradient of the sum of x and the residual, is added to dx. `dweight` and `dbias` are None where there is no such
    parameter."""

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


def norm(
    kernels: NormKernels, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    """The norm of every row."""
    _check(kernels, x, weight, bias)
    with_bias = bias is not None

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, Saved]:
        x, weight, bias = tensors
        done = _forward(kernels, x, None, weight, bias, eps)
        return done.y, (x, weight, done.mean, done.rstd)

    def backward(*upstream_and_saved: torch.Tensor) -> Saved:
        upstream, x, weight, mean, rstd = upstream_and_saved
        done = _backward(kernels, upstream, None, x, weight, mean, rstd, with_bias=with_bias)
        return done.dx, done.dweight, done.dbias

    return differentiable(forward, backward, x, weight, bias)


def add_norm(
    kernels: NormKernels, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of every row of x + residual, and the sum itself, rounded to its dtype before it is normalized."""
    _check(kernels, x, weight)
    _check_dtype(x, residual)
    if x.shape != residual.shape:
        raise ValueError(f"x has the shape {tuple(x.shape)}, the residual {tuple(residual.shape)}: they must be equal")

    def forward(*tensors: torch.Tensor) -> tuple[tuple[torch.Tensor, torch.Tensor], Saved]:
        x, residual, weight = tensors
        done = _forward(kernels, x, residual, weight, None, eps)
        assert done.total is not None
        return (done.y, done.total), (done.total, weight, done.mean, done.rstd)

    def backward(*upstream_and_saved: torch.Tensor) -> Saved:
        upstream, dtotal, total, weight, mean, rstd = upstream_and_saved
        done = _backward(kernels, upstream, dtotal, total, weight, mean, rstd, with_bias=False)
        return done.dx, done.dx, done.dweight

    return differentiable(forward, backward, x, residual, weight)


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
    mean, rstd = (torch.empty(grid.rows, dtype=_statistics_dtype(x), device=x.device) for _ in range(2))
    pass_ = NormForward(
        tensors[0],
        None if residual is None else tensors[1],
        _unit_stride(weight),
        _unit_stride(bias),
        results[0],
        None if residual is None else results[1],
        mean if kernels.centred else None,
        rstd,
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
    *,
    with_bias: bool,
) -> NormBackward:
    inputs = [dy, x] if dtotal is None else [dy, x, dtotal]
    tensors, grid = last_dim(*inputs)
    pass_ = NormBackward(
        tensors[0],
        tensors[1],
        None if dtotal is None else tensors[2],
        _unit_stride(weight),
        mean,
        rstd,
        tensors[-1],
        None if weight is None else x.new_empty(grid.cols),
        x.new_empty(grid.cols) if with_bias else None,
        grid,
    )
    if grid.rows * grid.cols:
        kernels.backward(pass_)
    else:  # a sum over no rows
        for gradient in (pass_.dweight, pass_.dbias):
            if gradient is not None:
                gradient.zero_()
    return pass_


def _statistics_dtype(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _unit_stride(parameter: torch.Tensor | None) -> torch.Tensor | None:
    return None if parameter is None else parameter.resolve_neg().contiguous()
