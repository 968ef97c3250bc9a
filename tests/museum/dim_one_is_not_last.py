"""Softmax over the dim the old default would pick: the last one of a matrix, the first one of a batch of them.

PyTorch used to choose the dim itself when none was given, by the number of dims: 0 for one or three, else 1.
Code written with matrices in mind keeps working until someone adds a batch dim, and then mixes the batch.
"""

import torch

import kernellab as kl

CAUGHT_BY = "ranks"
SOURCE = None
NEEDS_GPU = False


@kl.op(
    args=dict(x=kl.tensor("... N")),
    where=lambda case: len(case.dims["..."]) <= 2,  # features, sequences of them, or batches of those
    reduces="N",
    cases=kl.cases(shape=[(64, 256)], dtype=["float32"]),
)
def softmax(x):
    """exp(x − max) / Σ exp(x − max) along the last dim."""
    if x.shape[-1] == 0:
        return x.clone()
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


@softmax.impl("torch")
def _(x):
    return torch.softmax(x, dim=-1)


@softmax.impl("python-right")
def _(x):
    return torch.log_softmax(x, dim=x.dim() - 1).exp()


@softmax.impl("python-wrong")
def _(x):
    return torch.log_softmax(x, dim=0 if x.dim() in (0, 1, 3) else 1).exp()
