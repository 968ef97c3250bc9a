"""The mask is computed and used, but not in the load: the last block reads past the end of the tensor.

The extra elements are multiplied by 0 afterwards, so the sum is right as long as the memory behind the tensor is
finite. It usually is; if the tensor ends where mapped memory ends, the launch fails instead.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "bands"
SOURCE = "https://github.com/flagos-ai/FlagGems/issues/5230"
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("N")), reduces="N", cases=kl.cases(N=[4000], dtype=["float32"]))
def l1_norm(x):
    """Σ |x| of a vector."""
    return x.abs().sum()


@triton.jit
def l1_kernel(x_ptr, partial_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    if MASKED:
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    else:
        x = tl.load(x_ptr + at).to(tl.float32) * tl.where(inside, 1.0, 0.0)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(tl.abs(x), axis=0))


def launch(x, masked):
    blocks = triton.cdiv(x.numel(), 256)
    partial = torch.empty(blocks, dtype=torch.float32, device=x.device)
    if blocks:
        l1_kernel[(blocks,)](x.contiguous(), partial, x.numel(), masked, 256)
    return partial.sum().to(x.dtype)


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@l1_norm.impl("triton-right", supports=no_float64)
def _(x):
    return launch(x, masked=True)


@l1_norm.impl("triton-wrong", supports=no_float64)
def _(x):
    return launch(x, masked=False)
