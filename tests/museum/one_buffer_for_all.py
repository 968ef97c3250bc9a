"""The result's memory is kept and handed out again: the next call writes over what the last one returned.

Called once, or twice with the same inputs, nothing is to be seen. Two results of different inputs that are added up
afterwards are the same one twice.
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
