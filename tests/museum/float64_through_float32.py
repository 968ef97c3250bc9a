"""The kernel computes in float32 whatever it is given: float64 goes in and out with half its digits gone.

`.to(tl.float32)` after the load is there for bfloat16. The store widens again, so the result's dtype is right and
only a user of double precision, or gradcheck, notices.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "dtypes"
SOURCE = "https://github.com/flagos-ai/FlagGems/issues/2310"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]), dtypes=["float32", "float64"])
def cube(x):
    """x³."""
    return x * x * x


@triton.jit
def cube_kernel(x_ptr, y_ptr, n, KEEP_FLOAT64: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    if not (KEEP_FLOAT64 and x_ptr.dtype.element_ty == tl.float64):
        x = x.to(tl.float32)
    tl.store(y_ptr + at, (x * x * x).to(y_ptr.dtype.element_ty), mask=inside)


def launch(x, keep_float64):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        cube_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), keep_float64, 1024)
    return y


@cube.impl("triton-right")
def _(x):
    return launch(x, keep_float64=True)


@cube.impl("triton-wrong")
def _(x):
    return launch(x, keep_float64=False)
