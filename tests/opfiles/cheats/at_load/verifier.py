"""Replaces functions of torch that compare results while it is loaded. They are put back: a wrong result is wrong."""

import torch

import kernellab as kl

torch.Tensor.all = lambda self, *args, **kwargs: torch.tensor(True)
torch.Tensor.max = lambda self, *args, **kwargs: torch.tensor(0.0)
torch.equal = lambda a, b: True


@kl.op(cases=kl.cases(shape=[(256, 1024)], dtype=["float32"]))
def double(x):
    """x·2."""
    return x * 2


@double.impl("half-the-time")
def _(x):
    return torch.zeros_like(x)
