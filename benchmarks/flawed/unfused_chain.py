"""Flaw: a chain of PyTorch operators, each through memory. Fixed: one Triton kernel."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(8192, 16384)], dtype=["bfloat16"], cpu=dict(shape=[(64, 1024)], dtype=["float32"])))
def soft_sign(x):
    return x / (1 + x.abs()) * 0.5 + 0.5


soft_sign.impl("flawed", kind="torch")(lambda x: x / (1 + x.abs()) * 0.5 + 0.5)


@triton.jit
def soft_sign_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    y = x / (1 + tl.abs(x)) * 0.5 + 0.5
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=at < n)


@soft_sign.impl("fixed", kind="triton")
def _(x):
    y = torch.empty_like(x)
    soft_sign_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024, num_warps=4)
    return y
