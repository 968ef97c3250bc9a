"""Widened to float32 for accuracy and never narrowed again: bfloat16 goes in, float32 comes out.

The values are better than required, so no comparison fails. The next operation runs in float32 with twice the
memory, or fails where two dtypes meet.
"""

import torch

import kernellab as kl

CAUGHT_BY = "form"
SOURCE = "https://github.com/pytorch/executorch/pull/18772"
NEEDS_GPU = False
EPS = 1e-6


def normalised(x):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPS)


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32", "bfloat16"]))
def rms_norm(x):
    """x / √(mean of x² + ε) along the last dim."""
    return normalised(x).to(x.dtype)


@rms_norm.impl("torch", supports=lambda case: case.N > 0 or "needs N > 0")
def _(x):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], eps=EPS)


@rms_norm.impl("python-right")
def _(x):
    return torch.empty_like(x).copy_(normalised(x))


@rms_norm.impl("python-wrong")
def _(x):
    return normalised(x)
