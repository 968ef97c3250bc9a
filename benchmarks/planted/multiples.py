"""Kernels that take multiples of 128 alone: RMS norm with a weight. Each fault beside the same code without it."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N"), w=kl.tensor("N")),
    reduces="N",
    cases=kl.cases(M=[1024], N=[1024], dtype=["float32", "bfloat16"]),
)
def rms_norm(x, w):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, fault):
        ctx.save_for_backward(x, w)
        ctx.fault = fault
        y = x.float()
        if fault == "strides":  # rows are taken to be as far apart as they are wide
            y = torch.as_strided(x, x.shape, (x.shape[1], 1)).float()
        if fault == "infinities":
            y = y.nan_to_num(0.0, 3e38, -3e38)
        squares = y.square()
        if fault == "blocks-of-256":  # N = 384 has a block and a half
            squares[:, max(256, x.shape[1] // 256 * 256) :] = 0
        total = squares.sum(-1, keepdim=True)
        if fault == "bf16-sum" and x.dtype == torch.bfloat16:  # 512 + 1 is 512 in bfloat16
            total = total.clamp_max(512)
        out = (y * (total / x.shape[1] + 1e-6).rsqrt() * w.float()).to(x.dtype)
        if fault == "rows-1024":
            out[1024:] = x[1024:]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x, w), fault = ctx.saved_tensors, ctx.fault
        y, g = x.float(), g.float()
        r = (y.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        gy = g * w.float()
        gx = r * (gy - y * r.square() * (gy * y).mean(-1, keepdim=True))
        gw = g * y * r
        if fault == "weight-gradient":
            gw = gw[:512]
        if fault == "input-gradient":  # the sum over the row is left out beyond 256 columns
            gx = r * gy if x.shape[1] > 256 else gx
        return gx.to(x.dtype), gw.sum(0).to(w.dtype), None


FAULTS = ("strides", "infinities", "bf16-sum", "blocks-of-256", "rows-1024", "weight-gradient", "input-gradient")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    rms_norm.impl(name, supports=lambda c: (c.M % 128 == c.N % 128 == 0 and c.M * c.N > 0) or "multiples of 128 only")(
        functools.partial(lambda fault, x, w: Norm.apply(x, w, fault), name.removeprefix("wrong-"))
    )
