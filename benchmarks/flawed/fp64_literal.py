"""Flaw: literals without an f, so the arithmetic is in double. Fixed: literals with an f."""

import torch

import kernellab as kl

THREADS = 256
doubles, floats = (kl.cuda.kernel("literals.cu", name) for name in ("doubles", "floats"))


@kl.op(
    args=dict(x=kl.tensor("M N")),
    where=lambda case: case.N % 4 == 0,
    cases=kl.cases(shape=[(8192, 8192)], dtype=["float32"], cpu=dict(shape=[(64, 256)], dtype=["float32"])),
)
def tanh_gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def launch(kernel, x):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel() // 4
    kernel(-(-n // THREADS), THREADS, x, y, n)
    return y


tanh_gelu.impl("flawed", kind="cuda")(lambda x: launch(doubles, x))
tanh_gelu.impl("fixed", kind="cuda")(lambda x: launch(floats, x))
