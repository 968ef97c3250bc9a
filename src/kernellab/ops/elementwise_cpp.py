"""Elementwise ops for the CPU in C++: calls a function of an op's cpp.cpp, which maps its arithmetic over rows.hpp."""

from __future__ import annotations

import functools
from pathlib import Path

import torch

from kernellab.build import cpp
from kernellab.build.cpp import CppFunction
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.layout import elementwise


def map_cpp(op: str, function: str, *inputs: torch.Tensor, outputs: int = 1) -> list[torch.Tensor]:
    """A function of the op's cpp.cpp of every element. The outputs have the strides that PyTorch gives them."""
    require_float(inputs[0], op, CPP_NAMES)
    tensors, grid = elementwise(*inputs, outputs=outputs)
    places = [arg for t, strides in zip(tensors, grid.strides, strict=True) for arg in (t, *strides)]
    if grid.rows * grid.cols:
        entry(op, function, inputs[0].dtype)(*places, grid.rows, grid.cols, torch.get_num_threads())
    return tensors[len(inputs) :]


@functools.cache
def entry(op: str, function: str, dtype: torch.dtype) -> CppFunction:
    return cpp.function(Path(__file__).parent / op / "cpp.cpp", function, flags=[f"-DKL_T={CPP_NAMES[dtype]}"])
