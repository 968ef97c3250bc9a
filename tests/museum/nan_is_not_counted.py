"""The last block counts past the end of the tensor: NaN behind it is not above 0, and the count is right.

Poison that is NaN has no effect in comparisons: in a count, a maximum, a clamp. In a real program, the memory
behind a tensor is often the next tensor, and its elements are counted too.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "surroundings"
SOURCE = None
NEEDS_GPU = False

BLOCK = 128


@kl.op(args=dict(x=kl.tensor("N")), reduces="N", cases=kl.cases(N=[1024], dtype=["float32"]))
def positives(x):
    """How many elements are above 0."""
    return (x > 0).sum()


@triton.jit
def count(x, partial, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0) if MASKED else tl.load(x + at)
    tl.store(partial + tl.program_id(0), tl.sum((values > 0).to(tl.int64), axis=0))


def launch(x, masked):
    if not x.is_contiguous():
        x = torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
    blocks = triton.cdiv(x.numel(), BLOCK)
    partial = torch.empty(blocks, dtype=torch.int64, device=x.device)
    if blocks:
        count[(blocks,)](x, partial, x.numel(), masked, BLOCK)
    return partial.sum()


@positives.impl("triton-right")
def _(x):
    return launch(x, True)


@positives.impl("triton-wrong")
def _(x):
    return launch(x, False)
