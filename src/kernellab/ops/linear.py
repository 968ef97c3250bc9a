"""Tensors as the matrices of a linear layer: rows of any number, whose elements are neighbours in memory."""

from __future__ import annotations

import torch

from kernellab.ops.layout import row_count


def unit_depth(x: torch.Tensor) -> torch.Tensor:
    """A matrix whose neighbouring columns are neighbours in memory: x itself, or a copy."""
    x = x.resolve_neg()
    return x if x.shape[1] <= 1 or x.stride(1) == 1 else x.contiguous()


def as_matrix(x: torch.Tensor) -> torch.Tensor:
    """A tensor of any leading dims as rows. It is copied if no row stride covers them, or columns have gaps."""
    return unit_depth(x.reshape(row_count(x), x.shape[-1]))
