"""Partial sums are added to a workspace that was never cleared: fresh memory happens to be zero.

A large block comes directly from the operating system, which returns zeros, so the accumulator starts where it
should. When the allocator reuses a block, the sums start from old activations.
"""

import math

import torch

import kernellab as kl

CAUGHT_BY = "poison"
SOURCE = None
NEEDS_GPU = False
SLOTS = 9 << 20  # 36 MiB of float32: beyond what the C library ever keeps for reuse, so always new pages


@kl.op(args=dict(x=kl.tensor("... N")), reduces="N", cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def l1_norm(x):
    """Σ |x| along the last dim."""
    return x.abs().sum(dim=-1)


def in_pieces(x, workspace):
    """Σ |x|, a quarter of the columns at a time."""
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    total = workspace[:rows]
    for piece in x.reshape(rows, cols).split(max(1, -(-cols // 4)), dim=-1):
        total += piece.abs().sum(dim=-1, dtype=total.dtype)
    return total.reshape(x.shape[:-1]).to(x.dtype, copy=True)


def slots(x):
    size = max(SLOTS, math.prod(x.shape[:-1]))
    return dict(size=(size,), dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)


@l1_norm.impl("python-right")
@torch.no_grad()  # neither implementation is meant to be differentiated
def _(x):
    return in_pieces(x, torch.zeros(**slots(x)))


@l1_norm.impl("python-wrong")
@torch.no_grad()
def _(x):
    return in_pieces(x, torch.empty(**slots(x)))
