"""Flaw: each thread loads 2 bytes. Fixed: 16 bytes."""

import torch

import kernellab as kl

THREADS = 256
by_one, by_eight = (kl.cuda.kernel("halves.cu", name) for name in ("by_one", "by_eight"))


@kl.op(
    args=dict(x=kl.tensor("M N")),
    where=lambda case: case.N % 8 == 0 and case.dtype in ("bfloat16", "float64"),
    dtypes=["bfloat16"],
    cases=kl.cases(shape=[(16384, 16384)], dtype=["bfloat16"], cpu=dict(shape=[(64, 256)], dtype=["bfloat16"])),
)
def halves(x):
    return 2 * x + 1


def launch(kernel, width, x):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel() // width
    kernel(-(-n // THREADS), THREADS, x, y, n)
    return y


halves.impl("flawed", kind="cuda")(lambda x: launch(by_one, 1, x))
halves.impl("fixed", kind="cuda")(lambda x: launch(by_eight, 8, x))
