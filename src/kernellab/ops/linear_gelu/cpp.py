"""GeLU of a linear layer for the CPU: calls the functions of cpp.cpp."""

from __future__ import annotations

import torch

from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.layout import last_dim
from kernellab.ops.linear_gelu.passes import LinearSlope
from kernellab.ops.maps_cpp import entry

FUNCTIONS = {"tanh": "linear_gelu_tanh", "none": "linear_gelu_erf"}


def forward(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, approximate: str, *, keep: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    require_float(x, "linear_gelu", CPP_NAMES)
    (rows, depth), cols = x.shape, weight.shape[0]
    y = x.new_empty(rows, cols)
    z = torch.empty_like(y) if keep else None
    tensors = (x, *x.stride(), weight, *weight.stride(), *(0 if t is None else t for t in (bias, y, z)))
    entry("linear_gelu", FUNCTIONS[approximate], x.dtype)(*tensors, rows, cols, depth, torch.get_num_threads())
    return y, z


def slope(dy: torch.Tensor, z: torch.Tensor, approximate: str, *, with_bias: bool) -> LinearSlope:
    (dy, _, dz), grid = last_dim(dy, z)
    dbias = z.new_empty(grid.cols) if with_bias else None
    run = entry("linear_gelu", f"{FUNCTIONS[approximate]}_slope", z.dtype)
    run(dy, *grid.strides[0], z, dz, 0 if dbias is None else dbias, grid.rows, grid.cols, torch.get_num_threads())
    return LinearSlope(dz, dbias)
