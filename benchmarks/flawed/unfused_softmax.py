"""Flaw: softmax as a chain of operators in float32. Fixed: one Triton kernel, one row at a time."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N")),
    reduces="N",
    cases=kl.cases(shape=[(16384, 4096)], dtype=["bfloat16"], cpu=dict(shape=[(64, 512)], dtype=["float32"])),
)
def row_softmax(x):
    return torch.softmax(x, dim=-1)


@row_softmax.impl("flawed", kind="torch")
def _(x):
    wide = x.float()
    e = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)


@triton.jit
def row_softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + at, (e / tl.sum(e, axis=0)).to(y_ptr.dtype.element_ty), mask=at < N)


@row_softmax.impl("fixed", kind="triton")
def _(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    row_softmax_kernel[(x.shape[0],)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]), num_warps=4)
    return y
