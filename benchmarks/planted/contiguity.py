"""Kernels for contiguous inputs alone: a weighted sum of two tensors. Contiguous inputs may still be misaligned."""

import functools

import torch

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("B M N"), y=kl.tensor("B M N"), w=kl.tensor("M")),
    cases=kl.cases(B=[4], M=[64], N=[64], dtype=["float32", "float16"]),
)
def blend(x, y, w):
    return x + y * w[:, None]


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, w, fault):
        ctx.save_for_backward(y, w)
        ctx.fault = fault
        weights = w.float()[:, None]
        out = (x.float() + y.float() * weights).to(x.dtype)
        if fault == "misaligned" and y.data_ptr() % 16:
            out = (x.float() + y.float()).to(x.dtype)
        if fault == "offset" and y.numel() and y.storage_offset():  # reads from the start of the memory
            start = torch.as_strided(y, y.shape, y.stride(), 0)
            out = (x.float() + start.float() * weights).to(x.dtype)
        if fault == "batches":
            out[16:] = x[16:]
        if fault == "tail" and out.numel() % 4:
            out.view(-1)[-1] = 0
        if fault == "infinities":
            out = (x.float() + (y.float() * weights).clamp(-1e30, 1e30)).to(x.dtype)
        return out

    @staticmethod
    def backward(ctx, g):
        y, w = ctx.saved_tensors
        gw = (g.float() * y.float()).sum(-1)
        gw = gw[:8].sum(0) if ctx.fault == "weight-gradient" else gw.sum(0)
        gy = g.float() * w.float()[:, None]
        if ctx.fault == "second-gradient" and not ctx.needs_input_grad[0]:
            gy = g.float()
        return g, gy.to(y.dtype), gw.to(w.dtype), None


FAULTS = ("misaligned", "offset", "batches", "tail", "infinities", "weight-gradient", "second-gradient")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    blend.impl(name, supports=lambda c: c.contiguous or "contiguous inputs only")(
        functools.partial(lambda fault, x, y, w: Blend.apply(x, y, w, fault), name.removeprefix("wrong-"))
    )


@kl.op(args=dict(x=kl.tensor("M N")), cases=kl.cases(M=[96], N=[64], dtype=["float32", "bfloat16"]))
def transpose(x):
    return x.mT.clone(memory_format=torch.contiguous_format)


class Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, fault):
        ctx.fault = fault
        rows, columns = x.shape
        out = torch.empty(columns, rows, dtype=x.dtype)
        out.copy_(x.mT)
        whole = rows // 32 * 32
        if fault == "tail-not-written":
            out = torch.empty(columns, rows, dtype=x.dtype)
            out[:, :whole] = x[:whole].mT
        if fault == "tail-twice" and rows % 32 and rows > 32:  # the last tile is written at a whole tile's place
            out[:, whole - 32 : whole] = x[-32:].mT
        if fault == "exchanged" and rows != columns:
            out = x.reshape(columns, rows).clone()
        if fault == "one-row" and rows == 1:
            out.zero_()
        if fault == "minus-infinity":
            out = out.clamp_min(torch.finfo(x.dtype).min)
        return out

    @staticmethod
    def backward(ctx, g):
        if ctx.fault == "upstream-strides":
            g = torch.as_strided(g, g.shape, (g.shape[1], 1))
        if ctx.fault == "upstream-written":
            g.mul_(1.0).add_(1.0).sub_(1.0)
        return g.mT.clone(), None


FAULTS = (
    "tail-not-written",
    "tail-twice",
    "exchanged",
    "one-row",
    "minus-infinity",
    "upstream-strides",
    "upstream-written",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    transpose.impl(name, contiguous=["x"])(
        functools.partial(lambda fault, x: Transpose.apply(x, fault), name.removeprefix("wrong-"))
    )
