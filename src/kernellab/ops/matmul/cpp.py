"""Matmul for the CPU: calls the function of cpp.cpp."""

from __future__ import annotations

import torch

from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.maps_cpp import entry
from kernellab.ops.matmul.matrices import new_product


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The operands may have any strides: they are packed as they are read."""
    require_float(a, "matmul", CPP_NAMES)
    a, b, c = a.resolve_neg(), b.resolve_neg(), new_product(a, b)
    depth = a.shape[1]
    if not depth:
        return c.zero_()
    if c.numel():
        sizes = (*c.shape, depth, torch.get_num_threads())
        entry("matmul", "matmul", a.dtype)(a, *a.stride(), b, *b.stride(), c, *sizes)
    return c
