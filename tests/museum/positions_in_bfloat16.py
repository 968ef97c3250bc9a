"""Positions counted in the input's dtype: bfloat16 has no integers between 256 and 258.

Rotary embeddings start from `arange(S)`. In the model's own bfloat16 neighbouring positions become one position
from 257 on, and the angles made from them are wrong by whole steps. In float32 everything is right.
"""

import torch

import kernellab as kl

CAUGHT_BY = "dtypes"
SOURCE = "https://github.com/NVIDIA/Megatron-LM/issues/535"
NEEDS_GPU = False
STEP = 1 / 16  # a power of two: angles are exact in float32, so only the positions matter


@kl.op(
    args=dict(x=kl.tensor("... S")),
    cases=kl.cases(shape=[(16, 1024)], dtype=["float32"]),
    dtypes=["float32", "bfloat16"],
)
def rotate(x):
    """x·cos(position / 16), the position counted along the last dim."""
    position = torch.arange(x.shape[-1], device=x.device, dtype=torch.float64)
    return x * torch.cos(position * STEP).to(x.dtype)


@rotate.impl("python-right")
def _(x):
    exact = torch.promote_types(x.dtype, torch.float32)
    position = torch.arange(x.shape[-1], device=x.device, dtype=exact)
    return (x.to(exact) * torch.cos(position * STEP)).to(x.dtype)


@rotate.impl("python-wrong")
def _(x):
    position = torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
    return x * torch.cos(position * STEP)
