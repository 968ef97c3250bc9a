"""Flaw: a sum over rows with one program per 128 columns: sixteen programs on 132 SMs, so most of the GPU is idle.

Fixed: the rows are split into parts, and a second step adds the sums of the parts.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(dy=kl.tensor("M N")),
    reduces="M",
    dtypes=["bfloat16"],
    cases=kl.cases(shape=[(65536, 2048)], dtype=["bfloat16"], cpu=dict(shape=[(512, 128)], dtype=["bfloat16"])),
)
def bias_gradient(dy):
    """The gradient of a linear layer's bias."""
    return dy.sum(dim=0)


@triton.jit
def add_rows(x_ptr, y_ptr, M, N, rows_of_part, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """y[p] is the sum of the p-th rows_of_part rows of x; both contiguous."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    begin = part.to(tl.int64) * rows_of_part
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(begin, tl.minimum(begin + rows_of_part, M), ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < M) & (column[None, :] < N)
        total += tl.load(x_ptr + row[:, None] * N + column[None, :], mask=inside, other=0.0).to(tl.float32)
    y = tl.sum(total, axis=0)
    tl.store(y_ptr + part.to(tl.int64) * N + column, y.to(y_ptr.dtype.element_ty), mask=column < N)


def launch(x, y, rows_of_part):
    M, N = x.shape
    add_rows[(triton.cdiv(N, 128), y.shape[0])](x, y, M, N, rows_of_part, 64, 128, num_warps=4)


@bias_gradient.impl("flawed", kind="triton")
def _(dy):
    dy = dy.contiguous()
    y = torch.empty(1, dy.shape[1], dtype=dy.dtype, device=dy.device)
    launch(dy, y, dy.shape[0])
    return y[0]


@bias_gradient.impl("fixed", kind="triton")
def _(dy):
    dy = dy.contiguous()
    parts = torch.empty(triton.cdiv(dy.shape[0], 512), dy.shape[1], dtype=torch.float32, device=dy.device)
    launch(dy, parts, 512)
    y = torch.empty(1, dy.shape[1], dtype=dy.dtype, device=dy.device)
    launch(parts, y, parts.shape[0])
    return y[0]
