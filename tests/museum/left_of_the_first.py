"""The first element has no left neighbour; the kernel reads one anyway and multiplies it by 0.

What lies before the tensor is read on every call. It is finite almost always, and then 0 times it is 0. Should it
ever be NaN or inf, the first result is NaN, and its cause is hard to find.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "bands"
SOURCE = None
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("N")), cases=kl.cases(N=[4096], dtype=["float32"]))
def difference(x):
    """x[i] − x[i − 1], with 0 before the first."""
    return x - torch.cat([x.new_zeros(1), x])[:-1]


@triton.jit
def difference_kernel(x_ptr, y_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if MASKED:
        left = tl.load(x_ptr + at - 1, mask=inside & (at > 0), other=0.0).to(tl.float32)
    else:
        left = tl.load(x_ptr + at - 1, mask=inside, other=0.0).to(tl.float32)
        left = left * tl.where(at > 0, 1.0, 0.0)
    tl.store(y_ptr + at, (x - left).to(y_ptr.dtype.element_ty), mask=inside)


def launch(x, masked):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        difference_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), masked, 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@difference.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, masked=True)


@difference.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, masked=False)
