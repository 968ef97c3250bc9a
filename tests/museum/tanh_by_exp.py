"""tanh as (e²ᵘ − 1) / (e²ᵘ + 1): inf / inf for a GeLU input above about 10.

The formula is exact on paper and right for every N(0, 1) input a test draws. Its argument grows with the cube
of the input, so one activation of 11 overflows the exponential and the result is NaN.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "values"
SOURCE = "https://github.com/pytorch/pytorch/issues/186278"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def gelu(x):
    """0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


@gelu.impl("torch")
def _(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, GUARDED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    u = 0.7978845608028654 * (x + 0.044715 * (x * x * x))
    if GUARDED:
        e = tl.exp(-2.0 * tl.abs(u))  # never above 1
        tanh = tl.where(u < 0, e - 1.0, 1.0 - e) / (1.0 + e)
    else:
        e = tl.exp(2.0 * u)
        tanh = (e - 1.0) / (e + 1.0)
    tl.store(y_ptr + at, (0.5 * x * (1.0 + tanh)).to(y_ptr.dtype.element_ty), mask=inside)


def launch(x, guarded):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), guarded, 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@gelu.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, guarded=True)


@gelu.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, guarded=False)
