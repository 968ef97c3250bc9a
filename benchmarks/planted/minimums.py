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


@kl.op(
    args=dict(x=kl.tensor("M N")),
    options=dict(unbiased=[True, False]),
    reduces="N",
    cases=kl.cases(M=[16], N=[200], dtype=["float32", "bfloat16"]),
)
def variance(x, *, unbiased=True):
    return x.var(-1, correction=int(unbiased))


class Variance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, unbiased, fault):
        count = x.shape[1]
        y = x.float()
        mean = y.mean(-1, keepdim=True)
        if fault == "rounded-mean":
            mean = mean.to(x.dtype).float()
        if fault == "padded-mean":  # padded to a multiple of 128 and divided by that
            mean = y.sum(-1, keepdim=True) / (-(-count // 128) * 128)
        centred = y - mean
        total = centred.square().sum(-1)
        if fault == "padding-counted":  # masked lanes are 0 before the mean is subtracted, not after
            total = total + mean[:, 0].square() * (-count % 128)
        if fault == "one-pass":
            total = y.square().sum(-1) - count * mean[:, 0].square()
        divisor = count - int(unbiased)
        if fault == "always-unbiased":
            divisor = count - 1
        if fault == "blocks":  # two blocks of 1024 are merged by their own sums, without the means' difference
            blocks = [(b - b.mean(-1, keepdim=True)).square().sum(-1) for b in y.split(1024, -1)]
            total = sum(blocks)
        ctx.save_for_backward(centred)
        ctx.divisor, ctx.fault, ctx.dtype = divisor, fault, x.dtype
        return (total / divisor).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (centred,) = ctx.saved_tensors
        divisor = centred.shape[1] if ctx.fault == "gradient-divisor" else ctx.divisor
        factor = 1 if ctx.fault == "gradient-factor" else 2
        return (factor * g.float()[:, None] * centred / divisor).to(ctx.dtype), None, None


FAULTS = (
    "rounded-mean",
    "padded-mean",
    "padding-counted",
    "one-pass",
    "always-unbiased",
    "blocks",
    "gradient-divisor",
    "gradient-factor",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    variance.impl(name, supports=lambda c: (c.N >= 64 and c.M >= 4) or "at least 4 rows of 64")(
        functools.partial(
            lambda fault, x, *, unbiased=True: Variance.apply(x, unbiased, fault), name.removeprefix("wrong-")
        )
    )


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[8], N=[300], dtype=["float32", "float16"]))
def running_sum(x):
    return x.cumsum(-1)


class RunningSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, fault):
        ctx.fault = fault
        y = x.float()
        if fault == "strides":
            y = torch.as_strided(x, x.shape, (x.shape[1], 1)).float()
        out = y.cumsum(-1)
        if fault == "third-block":  # only the block before is carried over, not those before it
            sums = torch.stack([b.sum(-1) for b in y.split(256, -1)], -1)
            for i, block in enumerate(out.split(256, -1)):
                if i > 1:
                    block -= sums[:, : i - 1].sum(-1, keepdim=True)
        if fault == "half-carry" and x.dtype == torch.float16:
            carry, parts = torch.zeros(x.shape[0], 1, dtype=torch.float16), []
            for block in y.split(64, -1):
                parts.append(block.cumsum(-1) + carry)
                carry = (carry + block.sum(-1, keepdim=True)).half()
            out = torch.cat(parts, -1)
        return out.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        total = g.float()
        gx = total.flip(-1).cumsum(-1).flip(-1)
        if ctx.fault == "exclusive-gradient":
            gx = gx - total
        if ctx.fault == "forward-gradient" and total.shape[-1] % 2:
            gx = total.cumsum(-1)
        return gx.to(g.dtype), None


FAULTS = ("strides", "third-block", "half-carry", "exclusive-gradient", "forward-gradient")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    running_sum.impl(name, supports=lambda c: c.N >= 128 or "at least 128 columns")(
        functools.partial(lambda fault, x: RunningSum.apply(x, fault), name.removeprefix("wrong-"))
    )
