"""The input is made contiguous, the output is like the original: values land in another order.

`empty_like` of a transposed or channels-last tensor is transposed or channels-last too. The kernel reads a
contiguous copy and writes element i at place i, which is where that output keeps some other element.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "layouts"
SOURCE = None
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def softsign(x):
    """x / (1 + |x|)."""
    return x / (1 + x.abs())


@softsign.impl("torch")
def _(x):
    return torch.nn.functional.softsign(x)


@triton.jit
def softsign_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (x / (1.0 + tl.abs(x))).to(y_ptr.dtype.element_ty), mask=inside)


def launch(x, y):
    if x.numel():
        softsign_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@softsign.impl("triton-right", supports=no_float64)
def _(x):
    x = x.contiguous()
    return launch(x, torch.empty_like(x))


@softsign.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x.contiguous(), torch.empty_like(x))
