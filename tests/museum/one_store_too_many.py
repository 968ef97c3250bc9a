"""`i <= n` for `i < n`, and a grid of n / 256 + 1 blocks: one element is written behind the output.

The result is right. The element behind it belongs to the next tensor in the allocator's block, which is wrong from
now on, far from the mistake.
"""

import torch

import kernellab as kl

CAUGHT_BY = "bands"
SOURCE = None
NEEDS_GPU = True


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def double(x):
    """2·x."""
    return x + x


@double.impl("torch")
def _(x):
    return torch.mul(x, 2)


twice = kl.cuda.kernel("one_store_too_many.cu", "twice")


def launch(x, last):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        twice(x.numel() // 256 + 1, 256, x, y, last)
    return y


def only_float32(case):
    return case.dtype == "float32" or "float32 only"


@double.impl("cuda-right", supports=only_float32)
def _(x):
    return launch(x, x.numel() - 1)


@double.impl("cuda-wrong", supports=only_float32)
def _(x):
    return launch(x, x.numel())
