"""The first calls use the configurations that the tuner is trying: each sums in another order.

Every block size is right to within rounding, and no two give the same bits. A repeated run
gives other bits, and a checkpoint does not match its hash.
"""

import itertools

import torch

import kernellab as kl

CAUGHT_BY = "repeat"
SOURCE = None
NEEDS_GPU = False


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def row_sum(x):
    """Σ x along the last dim."""
    return x.sum(dim=-1)


def in_blocks(x, block):
    wide = torch.promote_types(x.dtype, torch.float32)
    partial = [piece.sum(dim=-1, dtype=wide) for piece in x.split(block, dim=-1)]
    return torch.stack(partial, dim=-1).sum(dim=-1, dtype=torch.float64).to(x.dtype)


@row_sum.impl("python-right")
def _(x):
    return in_blocks(x, 64)


candidates = itertools.cycle((16, 64, 128))


@row_sum.impl("python-wrong")
def _(x):
    return in_blocks(x, next(candidates))
