"""Ops for the CPU in C++: calls a function of an op's cpp.cpp, which uses rows.hpp to move the data."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import torch

from kernellab.build import cpp
from kernellab.build.cpp import CppFunction
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.layout import Grid, elementwise, last_dim


def map_cpp(op: str, function: str, *inputs: torch.Tensor, outputs: int = 1) -> list[torch.Tensor]:
    """A function of every element. The outputs have the strides that PyTorch gives them."""
    require_float(inputs[0], op, CPP_NAMES)
    tensors, grid = elementwise(*inputs, outputs=outputs)
    _call(op, function, tensors, grid)
    return tensors[len(inputs) :]


def map_rows_cpp(op: str, function: str, *inputs: torch.Tensor) -> torch.Tensor:
    """A function of every row; the result is contiguous."""
    require_float(inputs[0], op, CPP_NAMES)
    tensors, grid = last_dim(*inputs)
    _call(op, function, tensors, grid)
    return tensors[-1]


def _call(op: str, function: str, tensors: Sequence[torch.Tensor], grid: Grid) -> None:
    if grid.rows * grid.cols:
        places = [arg for t, strides in zip(tensors, grid.strides, strict=True) for arg in (t, *strides)]
        entry(op, function, tensors[0].dtype)(*places, grid.rows, grid.cols, torch.get_num_threads())


@functools.cache
def entry(op: str, function: str, dtype: torch.dtype) -> CppFunction:
    return cpp.function(Path(__file__).parent / op / "cpp.cpp", function, flags=[f"-DKL_T={CPP_NAMES[dtype]}"])
