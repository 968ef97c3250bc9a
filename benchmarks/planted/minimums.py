"""Kernels with a least size, N ≥ 256: softmax over rows, with or without a logarithm."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("... N")),
    options=dict(log=[False, True]),
    reduces="N",
    cases=kl.cases(shape=[(64, 1024)], dtype=["float32", "float16"]),
)
def softmax(x, *, log=False):
    return x.log_softmax(-1) if log else x.softmax(-1)


def as_if_contiguous(x):
    return torch.as_strided(x, x.shape, torch.empty(x.shape).stride())


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log, fault):
        y = (as_if_contiguous(x) if fault == "strides" else x).float()
        if fault == "infinities":  # a finite number in place of −inf: rows of −inf become uniform
            y = y.clamp_min(-1e30)
        top = y.amax(-1, keepdim=True)
        if fault == "maximum-at-0":
            top = top.clamp_min(0)
        if fault == "no-maximum":
            top = torch.zeros_like(top)
        e = (y - top).exp()
        total = e.sum(-1, keepdim=True)
        if fault == "half-sum" and x.dtype == torch.float16:  # 2048 + 1 is 2048 in float16
            total = total.clamp_max(2048)
        if fault == "nan":
            total = total.nan_to_num(1.0)
            e = e.nan_to_num(0.0)
        out = (y - top - total.log() if log else e / total).to(x.dtype)
        if log and fault == "log":
            out = (e / total + 1e-7).log().to(x.dtype)
        ctx.save_for_backward(out)
        ctx.log, ctx.fault = log, fault
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        if ctx.fault == "upstream":
            g = torch.as_strided(g, g.shape, torch.empty(g.shape).stride()) if g.stride()[-1:] != (0,) else g
        g, y = g.float(), out.float()
        gx = g - y.exp() * g.sum(-1, keepdim=True) if ctx.log else y * (g - (g * y).sum(-1, keepdim=True))
        return gx.to(out.dtype), None, None


FAULTS = ("strides", "infinities", "maximum-at-0", "no-maximum", "half-sum", "nan", "log", "upstream")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    softmax.impl(name, supports=lambda c: c.N >= 256 or "at least 256 columns")(
        functools.partial(lambda fault, x, *, log=False: Softmax.apply(x, log, fault), name.removeprefix("wrong-"))
    )
