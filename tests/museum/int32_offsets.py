"""row · stride in 32 bits: a small view with a large stride wraps around and reads another row.

The tensor may have a handful of rows; it is the distance between them that counts. Indices that are stored as
int32 to save space are multiplied by the stride before anything widens them.
"""

import torch

import kernellab as kl

CAUGHT_BY = "strides"
SOURCE = "https://github.com/vllm-project/vllm/pull/39585"
NEEDS_GPU = False


@kl.op(
    args=dict(x=kl.tensor("M N")),
    where=lambda case: case.M * case.N < 1 << 31,
    cases=kl.cases(shape=[(64, 256)], dtype=["float32"]),
)
def double(x):
    """2·x."""
    return x + x


def through_offsets(x, dtype):
    """2·x with each element fetched by its distance from the first, as a gather kernel is given it."""
    rows, cols = x.shape
    if x.numel() == 0:
        return torch.empty(rows, cols, dtype=x.dtype, device=x.device)
    down, across = (torch.tensor(s, device=x.device).to(dtype) for s in x.stride())
    offsets = torch.arange(rows, dtype=dtype, device=x.device)[:, None] * down
    offsets = offsets + torch.arange(cols, dtype=dtype, device=x.device) * across
    reach = 1 + (rows - 1) * x.stride(0) + (cols - 1) * x.stride(1)
    return 2 * x.detach().as_strided((reach,), (1,))[offsets]


@double.impl("python-right")
def _(x):
    return through_offsets(x, torch.int64)


@double.impl("python-wrong")
def _(x):
    return through_offsets(x, torch.int32)
