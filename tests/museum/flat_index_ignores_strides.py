"""One flat index for two inputs: right only while both are contiguous.

The kernel assumes that element i lies i places from the start. A transposed operand, or a slice
of wider rows, is then read in another order, or from columns outside the slice.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "layouts"
SOURCE = "https://github.com/pytorch/executorch/pull/22192"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def add(a, b):
    """a + b."""
    return a + b


@add.impl("torch")
def _(a, b):
    return torch.add(a, b)


@triton.jit
def add_kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(a_ptr + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, (a + b).to(y_ptr.dtype.element_ty), mask=inside)


def launch(a, b):
    y = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    if y.numel():
        add_kernel[(triton.cdiv(y.numel(), 1024),)](a, b, y, y.numel(), 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@add.impl("triton-right", supports=no_float64)
def _(a, b):
    return launch(a.contiguous(), b.contiguous())


@add.impl("triton-wrong", supports=no_float64)
def _(a, b):
    return launch(a, b)
