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


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")),
    reduces="K",
    cases=kl.cases(M=[64], K=[128], N=[96], dtype=["float32", "float16"]),
)
def matmul(a, b):
    return a @ b


def matmul_by(fault, a, b):
    x, y = a.float(), b.float()
    depth = a.shape[1]
    if fault == "depth-in-32s":  # K = 48 has a block and a half
        x, y = x[:, : max(16, depth // 32 * 32)], y[: max(16, depth // 32 * 32)]
    if fault == "second-strides":
        y = torch.as_strided(b, b.shape, (b.shape[1], 1)).float()
    out = x @ y
    if fault == "half-accumulator" and a.dtype == torch.float16:  # sums of 16 products are added up in float16
        total = torch.zeros(out.shape, dtype=torch.float16)
        for start in range(0, depth, 16):
            total = total + (x[:, start : start + 16] @ y[start : start + 16]).half()
        out = total
    if fault == "bounds-exchanged":  # rows are compared with N
        out[b.shape[1] :] = 0
    if fault == "wide":  # the grid has eight blocks of 128 columns
        out[:, 1024:] = 0
    if fault == "deep":
        out = x[:, :2048] @ y[:2048]
    return out if fault == "result-float32" else out.to(a.dtype)


FAULTS = (
    "depth-in-32s",
    "second-strides",
    "half-accumulator",
    "bounds-exchanged",
    "wide",
    "deep",
    "result-float32",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    matmul.impl(
        name,
        supports=lambda c: (c.M % 16 == c.K % 16 == c.N % 16 == 0 and c.M * c.K * c.N > 0) or "multiples of 16 only",
    )(functools.partial(matmul_by, name.removeprefix("wrong-")))
