"""Views tensors of any shape and strides as rows and columns, so that kernels handle nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch


class Grid(NamedTuple):
    """Tensors of equal sizes as `rows × cols`, and the row and column strides of each, in elements."""

    rows: int
    cols: int
    strides: tuple[tuple[int, int], ...]

    @property
    def flat(self) -> bool:
        """All are contiguous memory in the same order, so no index arithmetic is needed."""
        return self.rows == 1 and all(col == 1 for _, col in self.strides)

    @property
    def unit_columns(self) -> bool:
        """Neighbouring columns are neighbours in the memory of all."""
        return all(col == 1 for _, col in self.strides)


def elementwise(*inputs: torch.Tensor, outputs: int = 1, indexed: bool = False) -> tuple[list[torch.Tensor], Grid]:
    """The inputs and new outputs of an elementwise op, and how to walk through them.

    The outputs have the strides that PyTorch gives them: those of the first input that is not expanded. Dims that are
    adjacent in all tensors are merged. Tensors that do not merge into two dims, such as 3-D slices, are first copied
    into the outputs' order.

    `indexed`: the grid's last strides are those of the elements' logical indices, as if one more tensor, which is
    contiguous, held them. Where the outputs' order and that of the indices do not merge into two dims, as in
    channels-last tensors, all are contiguous instead, and `reorder` gives a result PyTorch's strides.
    """
    # In memory, which kernels read, a lazily negated tensor has the other sign.
    given = [x.resolve_neg() for x in inputs]
    results = [empty_elementwise(*given) for _ in range(outputs)]
    dims = _merge_dims([*given, *results], indexed=indexed)
    if len(dims) > 2:
        given = [x if x.stride() == results[0].stride() else torch.empty_like(results[0]).copy_(x) for x in given]
        dims = _merge_dims([*given, *results], indexed=indexed)
    if len(dims) > 2:
        given, results = [x.contiguous() for x in given], [x.contiguous() for x in results]
        dims = _merge_dims([*given, *results], indexed=indexed)
    ones = [(1, ((0,) * (indexed + len(given) + outputs)))] * (2 - len(dims))
    (rows, row_strides), (cols, col_strides) = ones + dims
    strides = tuple(zip(row_strides, col_strides, strict=True))
    return [*given, *results], Grid(rows, cols, (*strides[indexed:], *strides[:indexed]))


def empty_elementwise(*inputs: torch.Tensor) -> torch.Tensor:
    """A new tensor for the result of an elementwise op, with the strides that PyTorch gives it."""
    return torch.empty_like(_strided_like(inputs))


def reorder(result: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    """The result of an indexed map, in memory of the strides that PyTorch gives it."""
    like = _strided_like(inputs)
    if result.stride() == like.stride():
        return result
    expected = empty_elementwise(*inputs)
    return result if result.stride() == expected.stride() else expected.copy_(result)


def _strided_like(inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The input whose strides PyTorch gives the outputs of an elementwise op."""
    return next((x for x in inputs if 0 not in x.stride()), inputs[0])


def _merge_dims(tensors: Sequence[torch.Tensor], *, indexed: bool) -> list[tuple[int, tuple[int, ...]]]:
    """`(size, stride in each tensor)` from slowest to fastest in the last tensor; neighbours are merged if all strides
    allow it. `indexed`: the strides of the elements' indices come first."""
    result = tensors[-1]
    if result.numel() == 0:
        return [(0, (1,) * (indexed + len(tensors)))]
    strides = [t.stride() for t in tensors]
    if indexed:
        in_order = result if result.is_contiguous() else torch.empty(result.shape, device="meta")
        strides.insert(0, in_order.stride())
    wide = [d for d in range(result.dim()) if result.size(d) > 1]
    order = sorted(wide, key=lambda d: tuple(s[d] for s in reversed(strides)), reverse=True)
    dims: list[tuple[int, tuple[int, ...]]] = []
    for d in order:
        size, steps = result.size(d), tuple(s[d] for s in strides)
        if dims and dims[-1][1] == tuple(size * step for step in steps):
            dims[-1] = (dims[-1][0] * size, steps)
        else:
            dims.append((size, steps))
    return dims or [(1, (1,) * len(strides))]


def last_dim(*inputs: torch.Tensor, outputs: int = 1) -> tuple[list[torch.Tensor], Grid]:
    """The inputs and new contiguous outputs of an op along the last dim, and how to walk through them: a row for each
    vector.

    An input whose leading dims no single row stride covers is first copied to contiguous memory.
    """
    shape = inputs[0].shape
    cols = shape[-1] if shape else 1
    rows = row_count(inputs[0])
    given, strides = [], []
    for x in inputs:
        x = x.resolve_neg()
        try:
            view = x.view(rows, cols) if shape else x.view(1, 1)
        except RuntimeError:
            x = x.contiguous()
            view = x.view(rows, cols)
        given.append(x)
        strides.append((view.stride(0), view.stride(1)))
    results = [empty_rows(inputs[0]) for _ in range(outputs)]
    return [*given, *results], Grid(rows, cols, (*strides, *[(cols, 1)] * outputs))


def row_count(x: torch.Tensor) -> int:
    return math.prod(x.shape[:-1])


def empty_rows(x: torch.Tensor) -> torch.Tensor:
    """A new tensor for the result of an op along the last dim."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def with_unit_columns(x: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if its columns are not neighbours in memory."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def keep_channels_last(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """y in the order of x where x is channels-last, as some of PyTorch's ops along the last dim return it."""
    for dims, order in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if x.dim() == dims and not x.is_contiguous() and x.is_contiguous(memory_format=order):
            return y.contiguous(memory_format=order)
    return y
