"""A contiguous view need not start on 16 bytes: its offset counted in vectors of four is rounded down.

`is_contiguous()` says how elements follow one another, not where they begin. A slice that starts at element 1 is
contiguous, is read from element 0, and every result is its neighbour's. Plain vector loads would trap instead.
"""

import torch

import kernellab as kl

CAUGHT_BY = "layouts"
SOURCE = "https://github.com/NVIDIA/TensorRT-LLM/pull/17987"
NEEDS_GPU = True


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def double(x):
    """2·x."""
    return x + x


@double.impl("torch")
def _(x):
    return torch.mul(x, 2)


twice4 = kl.cuda.kernel("offset_in_vectors.cu", "twice4")


def launch(x):
    y = torch.empty_like(x)
    vectors = x.numel() // 4
    if vectors:
        base = x.as_strided((1,), (1,), 0)  # where the memory that x lies in begins
        twice4(-(-vectors // 256), 256, base, y, x.storage_offset() // 4, vectors)
    y.view(-1)[4 * vectors :] = 2 * x.view(-1)[4 * vectors :]
    return y


def only_float32(case):
    return case.dtype == "float32" or "float32 only"


@double.impl("cuda-right", supports=only_float32)
def _(x):
    x = x.detach().contiguous()
    aligned = x.data_ptr() % 16 == 0 and x.storage_offset() % 4 == 0
    return launch(x if aligned else x.clone())


@double.impl("cuda-wrong", supports=only_float32)
def _(x):
    return launch(x.detach().contiguous())
