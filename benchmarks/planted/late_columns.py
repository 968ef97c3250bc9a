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


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[4], N=[256], dtype=["float32"]))
def log_sum_exp(x):
    return x.logsumexp(-1)


def log_sum_exp_by(fault, x):
    top = torch.full(x.shape[:1], -torch.inf)
    total = torch.zeros(x.shape[:1])
    for number, block in enumerate(x.split(1024, -1)):  # one pass that corrects the sum when the maximum grows
        new = torch.maximum(top, block.detach().amax(-1))  # its gradient is 0, but for rounding
        base = torch.where(new.isinf(), 0.0, new)
        if fault == "infinities":  # −inf − −inf is NaN where a block holds −inf only
            base = new
        if fault == "first-maximum" and number:
            base, new = top, top
        factor = (top - base).exp()
        if fault == "not-corrected":
            factor = torch.ones_like(factor)
        if fault == "padded-with-0" and block.shape[1] % 64:
            total = total + (block.shape[1] % 64) * (-base).exp()
        total = total * factor + (block - base[:, None]).exp().sum(-1)
        top = new
    out = torch.where(top.isinf(), 0.0, top) + total.log()
    if fault == "last-column" and x.shape[1] > 2048 and x.shape[1] % 2:
        out = x[:, :-1].logsumexp(-1)
    return out


FAULTS = ("infinities", "first-maximum", "not-corrected", "padded-with-0", "last-column")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    log_sum_exp.impl(name, supports=lambda c: c.N >= 32 or "at least 32 columns")(
        functools.partial(log_sum_exp_by, name.removeprefix("wrong-"))
    )


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[8], N=[128], dtype=["float32", "float16"]))
def arg_max(x):
    return x.argmax(-1)


def arg_max_by(fault, x):
    out = x.argmax(-1)
    if fault == "index-in-16-bits":
        out = out.to(torch.int16).long()
    if fault == "index-in-half":  # beyond 2048 not every whole number is one of float16's
        out = out.half().long()
    if fault == "result-int32":
        out = out.int()
    if fault == "last-of-equals":
        out = x.shape[1] - 1 - x.flip(-1).argmax(-1)
    if fault == "nan":
        out = x.nan_to_num(-torch.inf, torch.inf, -torch.inf).argmax(-1)
    if fault == "starts-at-0":  # the search starts with the value 0
        out = torch.where(x.amax(-1) < 0, 0, out)
    return out


FAULTS = ("index-in-16-bits", "index-in-half", "result-int32", "last-of-equals", "nan", "starts-at-0")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    arg_max.impl(name, supports=lambda c: (c.N % 4 == 0 and c.N > 0) or "N in 4s")(
        functools.partial(arg_max_by, name.removeprefix("wrong-"))
    )
