"""Flaw: one block more than SMs, with one block per SM at a time. Fixed: four full rounds."""

import torch

import kernellab as kl

STEPS = 512
SHARED = 120 * 1024  # so that one block at a time fits on an SM
iterate = kl.cuda.kernel("iterate.cu", "iterate")


@kl.op(
    cost=lambda x: kl.Cost(read=[x], write=[x], flops={"fp32": 2 * STEPS * x.numel()}),
    cases=kl.cases(shape=[(1 << 23,)], dtype=["float32"], cpu=dict(shape=[(1 << 12,)], dtype=["float32"])),
)
def iterated(x):
    for _ in range(STEPS):
        x = x * 0.998 + 0.002
    return x


def launch(x, blocks):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel()
    iterate(blocks, 1024, x, y, n, -(-n // blocks), STEPS, shared=SHARED)
    return y


def sms(x):
    return torch.cuda.get_device_properties(x.device).multi_processor_count


iterated.impl("flawed", kind="cuda")(lambda x: launch(x, sms(x) + 1))
iterated.impl("fixed", kind="cuda")(lambda x: launch(x, 4 * sms(x)))
