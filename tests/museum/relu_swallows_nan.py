"""x where x > 0, else 0: a NaN compares false, so ReLU turns it into 0.

The network goes on with a zero where its input was broken, and the NaN that would have shown it is gone.
PyTorch's own ReLU once did this; kernels written as a comparison, or with a maximum that ignores NaN, still do.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "values"
SOURCE = "https://github.com/pytorch/pytorch/issues/7999"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def relu(x):
    """max(x, 0), NaN staying NaN."""
    return torch.clamp(x, min=0)


@relu.impl("torch")
def _(x):
    return torch.relu(x)


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, KEEP_NAN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y = tl.where(x < 0, 0.0, x) if KEEP_NAN else tl.where(x > 0, x, 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def launch(x, keep_nan):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), keep_nan, 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@relu.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, keep_nan=True)


@relu.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, keep_nan=False)
