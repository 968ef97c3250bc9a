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
