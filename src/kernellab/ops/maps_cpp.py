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
from kernellab.ops.philox import Stream


def map_cpp(
    op: str,
    function: str,
    *inputs: torch.Tensor,
    outputs: int = 1,
    stream: Stream | None = None,
    parameters: Sequence[int | float] = (),
) -> list[torch.Tensor]:
    """A function of every element. The outputs have the strides that PyTorch gives them.

    `stream`: the random words of a function that takes them; its results may need `layout.reorder`. `parameters`:
    further arguments of the function.
    """
    require_float(inputs[0], op, CPP_NAMES)
    tensors, grid = elementwise(*inputs, outputs=outputs, indexed=stream is not None)
    if stream is None:
        _call(op, function, tensors, grid, inputs[0].dtype, parameters)
    else:  # the indices have no memory
        _call(op, function, [*tensors, 0], grid, inputs[0].dtype, [*stream.as_int64(), *parameters])
    return tensors[len(inputs) :]


def map_rows_cpp(op: str, function: str, *inputs: torch.Tensor) -> torch.Tensor:
    """A function of every row; the result is contiguous."""
    require_float(inputs[0], op, CPP_NAMES)
    tensors, grid = last_dim(*inputs)
    _call(op, function, tensors, grid, inputs[0].dtype)
    return tensors[-1]


def _call(
    op: str,
    function: str,
    starts: Sequence[torch.Tensor | int],
    grid: Grid,
    dtype: torch.dtype,
    constants: Sequence[int | float] = (),
) -> None:
    if grid.rows * grid.cols:
        places = [arg for start, strides in zip(starts, grid.strides, strict=True) for arg in (start, *strides)]
        entry(op, function, dtype)(*places, *constants, grid.rows, grid.cols, torch.get_num_threads())


@functools.cache
def entry(op: str, function: str, dtype: torch.dtype) -> CppFunction:
    return cpp.function(Path(__file__).parent / op / "cpp.cpp", function, flags=[f"-DKL_T={CPP_NAMES[dtype]}"])
