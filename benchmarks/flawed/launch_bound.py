"""Flaw: a Python loop that launches one kernel for every few rows. Fixed: one launch for all rows."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N")),
    cases=kl.cases(shape=[(4096, 1024)], dtype=["float32"], cpu=dict(shape=[(64, 256)], dtype=["float32"])),
)
def twice_and_one(x):
    return 2 * x + 1


@triton.jit
def twice_and_one_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


def launch(x, y):
    twice_and_one_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024, num_warps=4)


@twice_and_one.impl("flawed", kind="triton")
def _(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    for start in range(0, x.shape[0], 64):
        launch(x[start : start + 64], y[start : start + 64])
    return y


@twice_and_one.impl("fixed", kind="triton")
def _(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    launch(x, y)
    return y
