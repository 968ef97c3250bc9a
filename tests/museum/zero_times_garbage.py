"""β = 0 should ignore the old contents of the buffer, but 0·NaN is NaN.

`out = β·out + part` with β = 0 for the first part and 1 for the rest looks like an initialisation. Fresh memory
usually holds old, finite numbers, but a NaN or inf in it reaches the result: found now and then by
chance, and every time by filling fresh memory with NaN.
"""

import torch

import kernellab as kl

CAUGHT_BY = "poison"
SOURCE = "https://github.com/pytorch/pytorch/issues/1347"
NEEDS_GPU = False


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def add(a, b):
    """a + b."""
    return a + b


@add.impl("torch")
def _(a, b):
    return torch.add(a, b)


def accumulate(out, part, beta):
    """out = beta·out + part."""
    return out.mul_(beta).add_(part)


@add.impl("python-right")
def _(a, b):
    out = torch.empty_like(a, memory_format=torch.contiguous_format).copy_(a)
    return accumulate(out, b, beta=1)


@add.impl("python-wrong")
def _(a, b):
    out = torch.empty_like(a, memory_format=torch.contiguous_format)
    return accumulate(accumulate(out, a, beta=0), b, beta=1)
