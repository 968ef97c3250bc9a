"""Views tensors of any shape and strides as rows and columns, so that kernels handle nothing else."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Rows(NamedTuple):
    """An input and an output of equal sizes as `rows × cols`; strides in elements."""

    rows: int
    cols: int
    x_row: int
    x_col: int
    y_row: int
    y_col: int

    @property
    def flat(self) -> bool:
        """Both are contiguous memory in the same order, so no index arithmetic is needed."""
        return self.rows == 1 and self.x_col == 1 and self.y_col == 1


def elementwise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, Rows]:
    """`(x, y, rows)` for y = f(x): a new y with the strides that PyTorch would give it.

    Dims that are adjacent in both tensors are merged. A tensor that does not merge into two dims, such as a 3-D
    slice, is first copied into y's order; `x` is then that copy.
    """
    x = x.resolve_neg()  # in memory, which kernels read, a lazily negated tensor has the other sign
    y = torch.empty_like(x)
    dims = _merge_dims(x, y)
    if len(dims) > 2:
        x = torch.empty_like(y).copy_(x)
        dims = _merge_dims(x, y)
    (rows, x_row, y_row), (cols, x_col, y_col) = [(1, 0, 0)] * (2 - len(dims)) + dims
    return x, y, Rows(rows, cols, x_row, x_col, y_row, y_col)


def _merge_dims(x: torch.Tensor, y: torch.Tensor) -> list[tuple[int, int, int]]:
    """`(size, x stride, y stride)` from slowest to fastest in y, neighbours merged if both strides allow it."""
    if x.numel() == 0:
        return [(0, 1, 1)]
    wide = [d for d in range(x.dim()) if x.size(d) > 1]
    order = sorted(wide, key=lambda d: (y.stride()[d], x.stride()[d]), reverse=True)
    dims: list[tuple[int, int, int]] = []
    for d in order:
        size, xs, ys = x.size(d), x.stride(d), y.stride(d)
        if dims and dims[-1][1] == size * xs and dims[-1][2] == size * ys:
            dims[-1] = (dims[-1][0] * size, xs, ys)
        else:
            dims.append((size, xs, ys))
    return dims or [(1, 1, 1)]


def last_dim(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, Rows]:
    """`(x, y, rows)` for an op along the last dim: one row per vector, a new contiguous y.

    If no single row stride covers the leading dims, x is first copied to contiguous memory.
    """
    x = x.resolve_neg()
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    cols = x.size(-1) if x.dim() else 1
    rows = x.numel() // cols if cols else 0
    try:
        view = x.view(rows, cols) if x.dim() else x.view(1, 1)
    except RuntimeError:
        x = x.contiguous()
        view = x.view(rows, cols)
    return x, y, Rows(rows, cols, view.stride(0), view.stride(1), cols, 1)
