"""A factor of 1 needs no work, so the input itself is returned: two names for one tensor.

The values are right and the input is untouched. Later the caller adds to the result in place, and changes the
input with it; only for the one factor, only in the one configuration.
"""

import torch

import kernellab as kl

CAUGHT_BY = "alias"
SOURCE = None
NEEDS_GPU = False


@kl.op(options=dict(factor=[1.0, 0.5]), cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def scale(x, *, factor=1.0):
    """x·factor, in memory of its own."""
    return x * factor


@scale.impl("torch")
def _(x, *, factor=1.0):
    return torch.mul(x, factor)


@scale.impl("python-right")
def _(x, *, factor=1.0):
    return x.clone() if factor == 1 else x * factor


@scale.impl("python-wrong")
def _(x, *, factor=1.0):
    return x if factor == 1 else x * factor
