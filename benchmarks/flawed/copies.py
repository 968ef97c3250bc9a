"""Flaw: a copy to float32 before the kernel and another back after it. Fixed: the kernel reads and writes bfloat16."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(16384, 8192)], dtype=["bfloat16"], cpu=dict(shape=[(64, 256)], dtype=["float32"])))
def sigmoid(x):
    return torch.sigmoid(x)


@triton.jit
def sigmoid_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(y_ptr + at, (1 / (1 + tl.exp(-x))).to(y_ptr.dtype.element_ty), mask=at < n)


def launch(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    sigmoid_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024, num_warps=4)
    return y


# Nothing is copied where the input is float32 already: there is no flaw to find at that dtype.
sigmoid.impl("flawed", kind="triton")(lambda x: launch(x.float()).to(x.dtype))
sigmoid.impl("fixed", kind="triton")(launch)
