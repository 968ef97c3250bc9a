"""Flaw: sixteen programs process everything. Fixed: one program for every block of elements."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(8192, 8192)], dtype=["float32"], cpu=dict(shape=[(64, 256)], dtype=["float32"])))
def negated(x):
    return -x


@triton.jit
def negate(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for start in tl.range(tl.program_id(0).to(tl.int64) * BLOCK, n, step, num_stages=1):
        at = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, -tl.load(x_ptr + at, mask=at < n), mask=at < n)


def launch(x, programs):
    x = x.contiguous()
    y = torch.empty_like(x)
    negate[(min(programs, triton.cdiv(x.numel(), 1024)),)](x, y, x.numel(), 1024, num_warps=8)
    return y


negated.impl("flawed", kind="triton")(lambda x: launch(x, 16))
negated.impl("fixed", kind="triton")(lambda x: launch(x, 1 << 30))
