"""`scale or default`: an option of 0 is taken for one that was not given.

None means "choose for me" and 0.0 means 0.0, but both are false. Someone who switches a term off by scaling it
with zero gets it at full strength.
"""

import math

import torch

import kernellab as kl

CAUGHT_BY = "options"
SOURCE = None
NEEDS_GPU = False


def default(x):
    return 1 / math.sqrt(max(1, x.shape[-1]))


@kl.op(
    args=dict(x=kl.tensor("... N")),
    options=dict(scale=[None, 0.5, 0.0]),
    cases=kl.cases(shape=[(64, 256)], dtype=["float32"]),
)
def scaled(x, *, scale=None):
    """x·scale, by default x / √N."""
    return x * (default(x) if scale is None else scale)


@scaled.impl("python-right")
def _(x, *, scale=None):
    return torch.mul(x, default(x) if scale is None else scale)


@scaled.impl("python-wrong")
def _(x, *, scale=None):
    return torch.mul(x, scale or default(x))
