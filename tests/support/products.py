"""Matrices that lie in memory in every way, and the comparison of a product with PyTorch's."""

from __future__ import annotations

import torch

from kernellab.accuracy.errors import measure, nonfinite_mismatch
from kernellab.accuracy.errors import passes as is_accurate
from kernellab.ops.matmul.precision import product_of_cut_operands
from support.row_ops import among_nans

# Each makes a matrix of the same values.
LAYOUTS = {
    "rows": lambda x: among_nans(x),
    "columns": lambda x: among_nans(x.t().contiguous()).t(),
    "misaligned rows": lambda x: among_nans(x, offset=1),
    "misaligned columns": lambda x: among_nans(x.t().contiguous(), offset=1).t(),
}


def operands(rows, depth, cols, dtype, layouts=("rows", "rows"), device="cpu"):
    generator = torch.Generator(device).manual_seed(rows * depth + cols)
    shapes = (rows, depth), (depth, cols)
    values = [torch.randn(shape, generator=generator, device=device).to(dtype) for shape in shapes]
    return [LAYOUTS[layout](x) for layout, x in zip(layouts, values, strict=True)]


def assert_is_product(c, a, b, *, tf32=False):
    """As accurate as PyTorch's own product, which is that of cut operands where tf32 is allowed."""
    exact = a.double() @ b.double()
    theirs = product_of_cut_operands(a, b) if tf32 else a @ b
    assert (c.shape, c.dtype, c.is_contiguous()) == (theirs.shape, theirs.dtype, True)
    assert nonfinite_mismatch(c, exact, theirs) is None
    errors = [measure(y, exact, rowwise=True) for y in (c, theirs)]
    assert is_accurate(*errors), (a.shape, a.stride(), b.shape, b.stride(), errors)
