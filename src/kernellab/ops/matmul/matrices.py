"""Matrices as kernels take them, and the gradient of a product: two products of transposed views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from kernellab.ops.gradients import Contract, Given, Passes, Tensors

ALIGNMENT = 16  # bytes, of the widest access and of what the copy engine takes


class Matrix(NamedTuple):
    """A matrix whose rows, or else whose columns, are neighbours in memory. `step`: elements from one row to the next,
    or from one column to the next."""

    tensor: torch.Tensor
    by_rows: bool
    step: int

    @property
    def aligned(self) -> bool:
        """Whether every row, or column, begins at a multiple of 16 bytes."""
        return self.tensor.data_ptr() % ALIGNMENT == 0 and self.step * self.tensor.element_size() % ALIGNMENT == 0


def as_matrix(x: torch.Tensor) -> Matrix:
    """A tensor by its rows or by its columns, as it lies in memory. Only one with other strides is copied."""
    x = x.resolve_neg()
    rows, cols = x.shape
    row_step, col_step = x.stride()
    fitting = []
    if col_step == 1 or cols <= 1:
        fitting.append(
            Matrix(x, True, row_step if rows > 1 else _padded(cols))
        )  # nothing takes the step of a single row
    if row_step == 1 or rows <= 1:
        fitting.append(Matrix(x, False, col_step if cols > 1 else _padded(rows)))
    if not fitting:
        step = _padded(cols)
        return Matrix(x.new_empty(rows, step)[:, :cols].copy_(x), True, step)
    return next((matrix for matrix in fitting if matrix.aligned), fitting[0])


def _padded(elements: int) -> int:
    """So many that their bytes are a multiple of 16, whatever the type."""
    return -(-elements // ALIGNMENT) * ALIGNMENT


Multiply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # two matrices, whatever their strides


def product_passes(multiply: Multiply) -> Passes:
    def forward(*inputs: torch.Tensor) -> Tensors:
        return [multiply(*inputs)]

    def backward(*upstream_and_inputs: torch.Tensor, wanted: Sequence[bool]) -> Given:
        (upstream, a, b), (for_a, for_b) = upstream_and_inputs, wanted
        return [multiply(upstream, b.t()) if for_a else None, multiply(a.t(), upstream) if for_b else None]

    return Passes(forward, backward)


def new_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A new tensor for a·b, by rows."""
    return a.new_empty(a.shape[0], b.shape[1])


def _new_products(*inputs: torch.Tensor, **options: object) -> Tensors:
    return [new_product(*inputs)]


def _new_gradients(*upstream_and_inputs: torch.Tensor, **options: object) -> Tensors:
    return [x.new_empty(x.shape) for x in upstream_and_inputs[1:]]


CONTRACT = Contract(
    inputs=("a", "b"),
    outputs=("c",),
    saved=("a", "b"),
    differentiated=(("a",), ("b",)),
    new_outputs=_new_products,
    new_gradients=_new_gradients,
)
