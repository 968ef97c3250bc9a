"""The result's memory is kept and returned again: the next call overwrites the result of the last one.

Called once, or twice with the same inputs, the result is right. Two results of different inputs that are added
afterwards are the same tensor.
"""

import torch

import kernellab as kl

CAUGHT_BY = "repeat"
SOURCE = None
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def softsign(x):
    """x / (1 + |x|)."""
    return x / (1 + x.abs())


buffers = {}


def buffer_like(x):
    return buffers.setdefault((x.shape, x.dtype, x.device), torch.empty(x.shape, dtype=x.dtype, device=x.device))


@softsign.impl("python-right")
def _(x):
    return torch.div(x.detach(), 1 + x.detach().abs(), out=torch.empty(x.shape, dtype=x.dtype, device=x.device))


@softsign.impl("python-wrong")
def _(x):
    return torch.div(x.detach(), 1 + x.detach().abs(), out=buffer_like(x))
