"""Kernels for the 16-bit types alone, while the op's first type is float32: SwiGLU."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(a=kl.tensor("... N"), b=kl.tensor("... N")),
    cases=kl.cases(shape=[(64, 256)], dtype=["float32", "bfloat16", "float16"]),
)
def swiglu(a, b):
    return torch.nn.functional.silu(a) * b


class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, fault):
        ctx.save_for_backward(a, b)
        ctx.fault = fault
        x, y = a.float(), b.float()
        if fault == "half-exp" and a.dtype == torch.float16:  # overflows above 11
            x = a / (1 + (-a).exp()) * (1 + (-x).exp())
        if fault == "nan":
            y = y.nan_to_num(0.0)
        if fault == "second-strides":
            y = torch.as_strided(b, b.shape, a.stride()).float()
        out = (x * x.sigmoid() * y).to(a.dtype)
        if fault == "half-exp" and a.dtype == torch.float16:
            out = (x / (1 + (-a.float()).exp()) * y).to(a.dtype)
        if fault == "vectors-of-8" and a.numel() % 8:
            out.view(-1)[-(a.numel() % 8) :] = 0
        if fault == "bf16-steps" and a.dtype == torch.bfloat16:
            out = (a * (1 / (1 + (-a).exp())).square().sqrt() * (b * 3) / 3).to(a.dtype)
        return out

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        x, y, g = a.float(), b.float(), g.float()
        s = x.sigmoid()
        slope = s * (1 + x * (1 - s))
        if ctx.fault == "slope":
            slope = s * (1 + x * (1 - s).square())
        gb = g * x * s
        if ctx.fault == "second-gradient" and b.dtype == torch.bfloat16:
            gb = g * s
        return (g * y * slope).to(a.dtype), gb.to(b.dtype), None


FAULTS = ("half-exp", "nan", "second-strides", "vectors-of-8", "bf16-steps", "slope", "second-gradient")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    swiglu.impl(name, supports=lambda c: c.dtype in ("float16", "bfloat16") or "16-bit types only")(
        functools.partial(lambda fault, a, b: Swiglu.apply(a, b, fault), name.removeprefix("wrong-"))
    )


@kl.op(
    args=dict(x=kl.tensor("M N"), residual=kl.tensor("M N"), w=kl.tensor("N")),
    reduces="N",
    where=lambda c: c.N > 0,
    cases=kl.cases(M=[32], N=[128], dtype=["float32", "float16", "bfloat16"]),
)
def add_norm(x, residual, w):
    total = x + residual
    return total * (total.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w, total


@add_norm.impl("torch")  # the reference overflows in float16 where this does not
def _(x, residual, w):
    total = x + residual
    return torch.nn.functional.rms_norm(total, w.shape, w, 1e-5), total


class AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual, w, fault):
        total = x.float() + residual.float()
        squares = total.square()
        if fault == "half-squares" and x.dtype == torch.float16:  # overflow above 256
            squares = total.half().square().float()
        mean = squares.mean(-1, keepdim=True)
        r = (mean + 1e-5).rsqrt()
        if fault == "eps-outside":
            r = 1 / (mean.sqrt() + 1e-5)
        if fault == "no-eps":
            r = mean.rsqrt()
        out = total * r * w.float()
        if fault == "nan":
            out = out.nan_to_num(0.0)
        ctx.save_for_backward(total, r, w)
        ctx.fault, ctx.dtype = fault, x.dtype
        second = x if fault == "second-result" and x.shape[0] > 32 else total.to(x.dtype)
        return out if fault == "result-float32" else out.to(x.dtype), second.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g, second):
        total, r, w = ctx.saved_tensors
        g = g.float()
        normal = total * r
        gn = g * w.float()
        gx = r * (gn - normal * (gn * normal).mean(-1, keepdim=True))
        if ctx.fault != "second-result-gradient":
            gx = gx + second.float()
        gw = g * normal
        if ctx.fault == "bf16-weight-gradient" and ctx.dtype == torch.bfloat16:  # partial sums in 16 bits
            partial = torch.zeros_like(w)
            for row in gw:
                partial = partial + row.to(w.dtype)
            gw = partial[None]
        gx = gx.to(ctx.dtype)
        return gx, gx.clone(), gw.sum(0).to(w.dtype), None


FAULTS = (
    "half-squares",
    "eps-outside",
    "no-eps",
    "nan",
    "second-result",
    "result-float32",
    "second-result-gradient",
    "bf16-weight-gradient",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    add_norm.impl(name, supports=lambda c: c.dtype in ("float16", "bfloat16") or "16-bit types only")(
        functools.partial(
            lambda fault, x, residual, w: AddNorm.apply(x, residual, w, fault), name.removeprefix("wrong-")
        )
    )
