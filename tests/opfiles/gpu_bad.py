"""Right implementations, and failures that only a GPU can have."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(256, 1024)], dtype=["float32"]))
def double(x):
    return x + x


@double.impl("torch")
def _(x):
    return torch.add(x, x)


@double.impl("good")
def _(x):
    return x * 2


@triton.jit
def _far_store(y_ptr, n, offset, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offset + at, 1.0, mask=at < n)


@double.impl("out-of-bounds", kind="triton")
def _(x):
    y = torch.empty_like(x)
    _far_store[(1,)](y, 1024, 1 << 44, BLOCK=1024)
    return y


@double.impl("tebibyte")
def _(x):
    return torch.empty(1 << 40, dtype=torch.uint8, device=x.device)


@double.impl("zeros")
def _(x):
    return torch.zeros_like(x)
