"""Flaw: two kernels with a float32 tensor of twice the input's size between them. Fixed: one kernel."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N")),
    reduces="N",
    cases=kl.cases(shape=[(16384, 8192)], dtype=["bfloat16"], cpu=dict(shape=[(64, 512)], dtype=["float32"])),
)
def normalised(x):
    """exp(x) over its sum along the row: the inputs are small, and nothing is subtracted."""
    e = torch.exp(x)
    return e / e.sum(dim=-1, keepdim=True)


@triton.jit
def exponentials(x_ptr, e_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(e_ptr + at, tl.exp(tl.load(x_ptr + at, mask=at < n).to(tl.float32)), mask=at < n)


@triton.jit
def shares(e_ptr, y_ptr, N, EXP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row + at, mask=at < N, other=0.0).to(tl.float32)
    if EXP:
        e = tl.where(at < N, tl.exp(e), 0.0)
    tl.store(y_ptr + row + at, (e / tl.sum(e, axis=0)).to(y_ptr.dtype.element_ty), mask=at < N)


@normalised.impl("flawed", kind="triton")
def _(x):
    x = x.contiguous()
    e = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    exponentials[(triton.cdiv(x.numel(), 1024),)](x, e, x.numel(), 1024, num_warps=4)
    y = torch.empty_like(x)
    shares[(x.shape[0],)](e, y, x.shape[1], False, triton.next_power_of_2(x.shape[1]), num_warps=8)
    return y


@normalised.impl("fixed", kind="triton")
def _(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    shares[(x.shape[0],)](x, y, x.shape[1], True, triton.next_power_of_2(x.shape[1]), num_warps=8)
    return y
