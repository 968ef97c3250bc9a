"""The kernel goes to the default stream, its inputs come from the current one: it reads them before they are written.

PyTorch's side streams and the default stream do not wait for each other. On the default stream, where tests run,
both are the same. CUDA-graph capture raised an error, so capture was fixed and the rest was not.
"""

import torch

import kernellab as kl

CAUGHT_BY = "stream"
SOURCE = "https://github.com/pytorch/pytorch/pull/182770"
NEEDS_GPU = True


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def double(x):
    """2·x."""
    return x + x


@double.impl("torch")
def _(x):
    return torch.mul(x, 2)


twice = kl.cuda.kernel("default_stream.cu", "twice")


def launch(x):
    y = torch.empty_like(x)
    if x.numel():
        twice(-(-x.numel() // 256), 256, x, y, x.numel())
    return y


def only_float32(case):
    return case.dtype == "float32" or "float32 only"


@double.impl("cuda-right", supports=only_float32)
def _(x):
    return launch(x.contiguous())


@double.impl("cuda-wrong", supports=only_float32)
def _(x):
    x = x.contiguous()
    if torch.cuda.is_current_stream_capturing():
        return launch(x)
    with torch.cuda.stream(torch.cuda.default_stream(x.device)):
        return launch(x)
