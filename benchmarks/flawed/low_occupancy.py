"""Flaw: unneeded shared memory, so only one block of four warps fits on an SM. Fixed: no shared memory."""

import torch

import kernellab as kl

THREADS = 128
wide = kl.cuda.kernel("wide.cu", "wide")


@kl.op(cases=kl.cases(shape=[(8192, 8192)], dtype=["float32"], cpu=dict(shape=[(64, 256)], dtype=["float32"])))
def affine(x):
    return 2 * x + 1


def launch(x, shared):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel() // 4
    wide(-(-n // THREADS), THREADS, x, y, n, shared=shared)
    return y


def fours(case):
    return case.dims["..."][-1] % 4 == 0 or "rows of whole float4 only"


affine.impl("flawed", kind="cuda", supports=fours)(lambda x: launch(x, 200 * 1024))
affine.impl("fixed", kind="cuda", supports=fours)(lambda x: launch(x, 0))
