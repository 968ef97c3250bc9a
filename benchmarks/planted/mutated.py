"""Kernels that write their result into an input, which `mutates=` declares: a residual added before a scaling."""

import functools

import torch

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
