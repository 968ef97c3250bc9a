"""Kernels for the 16-bit types alone, while the op's first type is float32: SwiGLU."""

import functools

import torch

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
