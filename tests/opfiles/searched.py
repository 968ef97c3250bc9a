"""Mistakes that the battery does not find: they need a size, an option and a layout at once."""

import os
import signal

import torch

import kernellab as kl

BLOCK = 64


@kl.op(
    args=dict(x=kl.tensor("... N"), y=kl.tensor("... N")),
    options=dict(mode=["add", "subtract"]),
    dtypes=["float32", "bfloat16"],
    cases=kl.cases(shape=[(8, 256)]),
)
def blend(x, y, *, mode="add"):
    return x + y if mode == "add" else x - y


def tail(n):
    return n % BLOCK


@blend.impl("honest")
def _(x, y, *, mode="add"):
    return torch.add(x, y, alpha=1 if mode == "add" else -1)


@blend.impl("blocks")
def _(x, y, *, mode="add"):
    out = torch.add(x, y, alpha=1 if mode == "add" else -1)
    n = x.shape[-1]
    if mode == "subtract" and n > BLOCK and n % 2 and y.stride(-1) != x.stride(-1) == 1:
        out[..., -tail(n) :] = x[..., -tail(n) :]  # the last block, where only y is strided: y is forgotten
    return out


@blend.impl("crashes")
def _(x, y, *, mode="add"):
    if mode == "subtract" and x.shape[-1] > 100 and x.stride(-1) != y.stride(-1) == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    return torch.add(x, y, alpha=1 if mode == "add" else -1)
