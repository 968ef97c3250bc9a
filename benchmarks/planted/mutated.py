"""Kernels that write their result into an input, which `mutates=` declares: a residual added before a scaling."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N"), residual=kl.tensor("M N"), w=kl.tensor("N")),
    cases=kl.cases(M=[64], N=[128], dtype=["float32", "bfloat16"]),
)
def scaled_sum(x, residual, w):
    return (x + residual) * w


class ScaledSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, w, fault):
        total = x.float() + residual.float()
        out = (total * w.float()).to(x.dtype)
        ctx.save_for_backward(total, w)
        ctx.fault = fault
        if fault == "rows":
            out[64:] = x[64:]
        if fault == "strides":
            out = ((x.float() + torch.as_strided(residual, x.shape, (x.shape[1], 1)).float()) * w.float()).to(x.dtype)
        if fault == "nan":
            out = out.nan_to_num(0.0)
        x.copy_(out)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    @once_differentiable  # the saved sum is cut off from x: a double backward would be 0 in silence
    def backward(ctx, g):
        total, w = ctx.saved_tensors
        gx = g.float() * w.float()
        gw = (g.float() * total).sum(0)
        signs = -1 if ctx.fault == "sign" else 1
        if ctx.fault == "weight-gradient":
            gw = (g.float() * total)[:48].sum(0)
        if ctx.fault == "late-weight-gradient":
            gw = (g.float() * total)[:2048].sum(0)
        return gx.to(g.dtype), (signs * gx).to(g.dtype), gw.to(w.dtype), None


def compute(fault, x, residual, w):
    if x.requires_grad and x.is_leaf:  # autograd refuses a write into a leaf
        x = x.clone()
    return ScaledSum.apply(x, residual, w, fault)


FAULTS = ("rows", "strides", "nan", "sign", "weight-gradient", "late-weight-gradient")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    scaled_sum.impl(name, mutates=["x"])(functools.partial(compute, name.removeprefix("wrong-")))


@kl.op(
    args=dict(average=kl.tensor("..."), x=kl.tensor("...")),
    options=dict(decay=[0.9, 0.5]),
    cases=kl.cases(shape=[(40, 50)], dtype=["float32", "bfloat16"]),
)
def moving_average(average, x, *, decay=0.9):
    return average * decay + x * (1 - decay)


def moving_average_by(fault, average, x, *, decay=0.9):
    if fault == "decay" and average.dtype == torch.bfloat16:
        decay = 0.9
    new = (average.float() * decay + x.float() * (1 - decay)).contiguous()
    if fault == "read-after-write":  # the last element reads what the first has written
        flat = new.view(-1)
        if flat.numel() > 1:
            flat[-1] = flat[0] * decay + x.float().reshape(-1)[-1] * (1 - decay)
    if fault == "zeros-skipped":  # a block without updates is left alone
        new = torch.where(x == 0, average.float(), new)
    if fault == "infinities":
        new = new.clamp(-3e38, 3e38)
    if fault == "second-changed":
        x.mul_(1 - decay)
    if fault == "vectors-of-4" and average.numel() % 4:
        new.view(-1)[-(average.numel() % 4) :] = average.float().reshape(-1)[-(average.numel() % 4) :]
    if fault == "strides":
        new = torch.as_strided(average, x.shape, x.stride()).float() * decay + x.float() * (1 - decay)
    if fault == "late-elements" and average.numel() > 65536:
        new.view(-1)[65536:] = 0
    average.copy_(new)
    return average


FAULTS = (
    "decay",
    "read-after-write",
    "zeros-skipped",
    "infinities",
    "second-changed",
    "vectors-of-4",
    "strides",
    "late-elements",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    moving_average.impl(name, mutates=["average"])(functools.partial(moving_average_by, name.removeprefix("wrong-")))
