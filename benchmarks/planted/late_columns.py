"""Faults in long rows: a block that holds one row, a loop that ends early, values that decide at the end of a row."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(16, 128)], dtype=["float32", "bfloat16"]), where=lambda c: 0 not in c.shape and c.shape)
def row_max(x):
    return x.amax(-1)


def max_by(fault, x):
    limits = {"columns-4096": 4096, "columns-16384": 16384, "columns-65536": 65536, "columns-131072": 131072}
    y = x[..., : limits.get(fault)]
    if fault == "last-column" and x.shape[-1] > 4097:
        y = x[..., :-1]
    if fault == "padded-with-0" and x.shape[-1] & (x.shape[-1] - 1):
        y = torch.cat([x, torch.zeros_like(x[..., :1])], -1)
    return y.amax(-1)


FAULTS = ("columns-4096", "columns-16384", "columns-65536", "columns-131072", "last-column", "padded-with-0")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    row_max.impl(name, supports=lambda c: len(c.shape) >= 2 or "rows of something")(
        functools.partial(max_by, name.removeprefix("wrong-"))
    )


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[16], N=[256], dtype=["float32"]))
def row_norm(x):
    return x / (x.square().sum(-1, keepdim=True) + 1.0).sqrt()


class RowNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, fault):
        y = x[:, :32768] if fault == "columns-32768" else x
        r = (y.square().sum(-1, keepdim=True) + 1.0).rsqrt()
        ctx.save_for_backward(x, r)
        ctx.fault = fault
        return x * r

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, r = ctx.saved_tensors
        product = g * x
        if ctx.fault == "gradient-8192":
            product = product[:, :8192]
        if ctx.fault == "gradient-65536":
            product = product[:, :65536]
        return r * g - x * r**3 * product.sum(-1, keepdim=True), None


for name in ("right", "wrong-columns-32768", "wrong-gradient-8192", "wrong-gradient-65536"):
    row_norm.impl(name, supports=lambda c: (c.N % 256 == 0 and c.N > 0) or "N in 256s")(
        functools.partial(lambda fault, x: RowNorm.apply(x, fault), name.removeprefix("wrong-"))
    )
