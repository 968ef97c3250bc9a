"""A number read back to the host is baked into a CUDA graph: replays scale new inputs by the old maximum.

Reading it during capture is forbidden, so the code uses the last value it saw. Warm-up and capture have the same
input and agree; from then on the graph multiplies by a constant.
"""

import torch

import kernellab as kl

CAUGHT_BY = "graph"
SOURCE = "https://github.com/Dao-AILab/flash-attention/issues/1164"
NEEDS_GPU = True


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def to_unit_range(x):
    """x / max |x|."""
    return x / x.abs().amax() if x.numel() else x.clone()


@to_unit_range.impl("python-right")
@torch.no_grad()  # a scale for quantising: neither implementation is meant to be differentiated
def _(x):
    return torch.div(x, torch.linalg.vector_norm(x, ord=float("inf"))) if x.numel() else x.clone()


last_seen = {}


@to_unit_range.impl("python-wrong")
@torch.no_grad()
def _(x):
    if not x.numel():
        return x.clone()
    if not (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        last_seen["peak"] = float(torch.linalg.vector_norm(x, ord=float("inf")))
    return torch.div(x, last_seen["peak"])
