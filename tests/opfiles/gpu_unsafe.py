"""Implementations that mostly give right results and are unsafe: only compute-sanitizer finds out."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(63, 257)], dtype=["float32"]))
def double(x):
    return x + x


@triton.jit
def _read_beyond(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)  # not masked
    tl.store(y_ptr + at, x + x, mask=at < n)


@triton.jit
def _masked(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x + x, mask=at < n)


def _triton(kernel, x):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        kernel[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
    return y


@double.impl("triton-reads-beyond")
def _(x):
    return _triton(_read_beyond, x)


@double.impl("triton-masked")
def _(x):
    return _triton(_masked, x)


def _cuda(name, x):
    kernel = kl.cuda.kernel("gpu_unsafe.cu", f"{name}<float>")
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        kernel(triton.cdiv(x.numel(), 256), 256, x, y, x.numel())
    return y


def _float32(case):
    return case.dtype == "float32" or "float32 only"


@double.impl("cuda-races", supports=_float32)
def _(x):
    return _cuda("double_racing", x)


@double.impl("cuda-staged", supports=_float32)
def _(x):
    return _cuda("double_staged", x)


@double.impl("cuda-unwritten", supports=_float32)
def _(x):
    return _cuda("double_unwritten", x)
