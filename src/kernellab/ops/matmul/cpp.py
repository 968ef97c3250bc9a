"""Matmul for the CPU: calls the function of cpp.cpp."""

from __future__ import annotations

import torch

from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.maps_cpp import entry
from kernellab.ops.matmul.matrices import new_product

# As in cpp.cpp: the most that it uses on any machine.
BLOCK_ROWS, BLOCK_COLS, MOST_DEPTH, WIDEST_PANEL = 144, 512, 512, 64


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The operands may have any strides: they are packed as they are read."""
    require_float(a, "matmul", CPP_NAMES)
    a, b, c = a.resolve_neg(), b.resolve_neg(), new_product(a, b)
    depth = a.shape[1]
    if not depth:
        return c.zero_()
    if c.numel():
        threads = torch.get_num_threads()
        wide = torch.promote_types(a.dtype, torch.float32)
        packed = a.new_empty(-(-c.shape[1] // WIDEST_PANEL) * WIDEST_PANEL * depth, dtype=wide)
        scratch = a.new_empty(threads * BLOCK_ROWS * (MOST_DEPTH + BLOCK_COLS), dtype=wide)
        sizes = (*c.shape, depth, threads)
        entry("matmul", "matmul", a.dtype)(a, *a.stride(), b, *b.stride(), c, packed, scratch, *sizes)
    return c
