"""Norms for the CPU in C++: calls the functions of an op's cpp.cpp, which uses norms.hpp."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.maps_cpp import entry
from kernellab.ops.norms import NormBackward, NormForward

# Gradients of parameters are added up for slices of rows, which threads share. Their number depends on the shape
# alone, so that results do not depend on the number of threads.
MOST_SLICES, FEWEST_SLICES, MOST_PARTIAL_ELEMENTS = 64, 4, 1 << 22


class CppNorm(NamedTuple):
    """`adds`: whether its input is a sum, whose gradient backward takes too."""

    op: str
    centred: bool
    adds: bool = False

    def check(self, x: torch.Tensor) -> None:
        require_float(x, self.op, CPP_NAMES)

    def forward(self, p: NormForward) -> None:
        tensors = [t for t in (p.x, p.residual) if t is not None]
        places = [arg for t, strides in zip(tensors, p.grid.strides, strict=False) for arg in (t, *strides)]
        rest = [_pointer(t) for t in (p.weight, p.bias, p.y, p.total, p.mean, p.rstd)]
        size = (p.grid.rows, p.grid.cols, torch.get_num_threads())
        entry(self.op, self.op, p.x.dtype)(*places, *rest, float(p.eps), *size)

    def backward(self, p: NormBackward) -> None:
        rows, cols = p.grid.rows, p.grid.cols
        tensors = [t for t in (p.dy, p.x, p.dtotal) if t is not None]
        places = [arg for t, strides in zip(tensors, p.grid.strides, strict=False) for arg in (t, *strides)]
        if self.adds and p.dtotal is None:
            places += [0, 0, 0]
        slices = min(rows, max(FEWEST_SLICES, min(MOST_SLICES, MOST_PARTIAL_ELEMENTS // cols)))
        wanted = (p.dweight, p.dbias)
        sums = [None if t is None else p.rstd.new_empty(slices, cols) for t in wanted]
        rest = [_pointer(t) for t in (p.weight, p.mean, p.rstd, p.dx, *sums, *wanted)]
        size = (rows, cols, torch.get_num_threads())
        entry(self.op, f"{self.op}_backward", p.x.dtype)(*places, *rest, slices, *size)


def _pointer(tensor: torch.Tensor | None) -> torch.Tensor | int:
    return 0 if tensor is None else tensor
