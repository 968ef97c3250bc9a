"""Partial sums added with atomicAdd arrive in another order each time, and rounding depends on the order.

Every result is within tolerance, but no two runs give the same bits. Training that should be reproducible is not, and
a real bug can no longer be distinguished from noise.
"""

import math

import torch

import kernellab as kl

CAUGHT_BY = "repeat"
SOURCE = "https://github.com/Dao-AILab/flash-attention/issues/414"
NEEDS_GPU = True
PIECE = 1024  # columns per block, as in atomic_sum.cu


@kl.op(
    args=dict(x=kl.tensor("... N")),
    reduces="N",
    cases=kl.cases(shape=[(64, 262144)], dtype=["float32"], cpu=dict(shape=[(64, 256)])),
)
def row_sum(x):
    """Σ x along the last dim."""
    return x.sum(dim=-1)


sum_pieces = kl.cuda.kernel("atomic_sum.cu", "sum_pieces")


def launch(x, atomically):
    rows, cols = math.prod(x.shape[:-1]), x.shape[-1]
    x = x.contiguous()
    pieces = -(-cols // PIECE)
    out = torch.zeros((rows,) if atomically else (rows, pieces), device=x.device)
    for first in range(0, rows, 65535):  # the most a grid takes in y
        some = min(65535, rows - first)
        if cols:
            sum_pieces((pieces, some), 256, x.view(rows, cols)[first:], out[first:], cols, pieces, int(atomically))
    return (out if atomically else out.sum(dim=-1)).view(x.shape[:-1])


def only_float32(case):
    return case.dtype == "float32" or "float32 only"


@row_sum.impl("cuda-right", supports=only_float32)
def _(x):
    return launch(x, atomically=False)


@row_sum.impl("cuda-wrong", supports=only_float32)
def _(x):
    return launch(x, atomically=True)
