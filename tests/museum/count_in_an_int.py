"""`int n` in the kernel, a 64-bit count in the caller: beyond 2³¹ elements n is negative and nothing is written.

The count is narrowed at the kernel's launch without a warning. The loop ends before it begins, the launch succeeds,
and the output is whatever its memory held.
"""

import torch

import kernellab as kl

CAUGHT_BY = "large"
SOURCE = "https://github.com/NVIDIA/TransformerEngine/pull/3136"
NEEDS_GPU = True


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def double(x):
    """2·x."""
    return x + x


@double.impl("torch")
def _(x):
    return torch.mul(x, 2)


in_64_bits = kl.cuda.kernel("count_in_an_int.cu", "twice<long long>")
in_32_bits = kl.cuda.kernel("count_in_an_int.cu", "twice<int>")


def launch(kernel, x):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        kernel(min(-(-x.numel() // 256), 65536), 256, x, y, x.numel())
    return y


def only_float32(case):
    return case.dtype == "float32" or "float32 only"


@double.impl("cuda-right", supports=only_float32)
def _(x):
    return launch(in_64_bits, x)


@double.impl("cuda-wrong", supports=only_float32)
def _(x):
    return launch(in_32_bits, x)
