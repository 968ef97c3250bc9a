"""Flaw: launch bounds that leave 32 registers to a thread with 64 values. Fixed: bounds that leave it 128."""

import torch

import kernellab as kl

cramped, roomy = (kl.cuda.kernel("columns.cu", name) for name in ("cramped", "roomy"))


@kl.op(
    args=dict(x=kl.tensor("R N")),
    where=lambda case: case.R == 64,
    reduces="R",
    cases=kl.cases(R=[64], N=[1 << 21], dtype=["float32"], cpu=dict(R=[64], N=[256], dtype=["float32"])),
)
def column_softmax(x):
    return torch.softmax(x, dim=0)


def launch(kernel, threads, x):
    x = x.contiguous()
    y = torch.empty_like(x)
    kernel(-(-x.shape[1] // threads), threads, x, y, x.shape[1])
    return y


column_softmax.impl("flawed", kind="cuda")(lambda x: launch(cramped, 1024, x))
column_softmax.impl("fixed", kind="cuda")(lambda x: launch(roomy, 256, x))
