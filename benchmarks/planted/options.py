"""Kernels without the first value of an option: norms of rows, "l1" not among them."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N")),
    options=dict(mode=["l1", "l2", "max"], keep=[True, False]),
    reduces="N",
    where=lambda c: c.N > 0,
    cases=kl.cases(M=[64], N=[300], dtype=["float32", "bfloat16"]),
)
def norm(x, *, mode="l1", keep=True):
    if mode == "max":
        return x.abs().amax(-1, keepdim=keep)
    return x.abs().sum(-1, keepdim=keep) if mode == "l1" else x.square().sum(-1, keepdim=keep).sqrt()


def compute(fault, x, *, mode="l1", keep=True):
    y = x.float()
    if fault == "strides":
        y = torch.as_strided(x, x.shape, (x.shape[1], 1)).float()
    if mode == "max":
        size = y if fault == "signed" else y.abs()
        if fault == "first-128-rows":
            size = torch.where(torch.arange(x.shape[0])[:, None] < 128, size, size[:, :1])
        if fault == "late-columns":
            size = size[:, :4096]
        if fault == "nan":
            size = size.nan_to_num(0.0)
        out = size.amax(-1)
    else:
        out = y.square().sum(-1).sqrt()
        if fault == "one-column" and x.shape[1] == 1:
            out = out * 0
        if fault == "not-kept" and not keep:
            out = out * 1.01
    return (out[:, None] if keep else out).to(x.dtype)


FAULTS = ("strides", "signed", "first-128-rows", "late-columns", "nan", "one-column", "not-kept")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    norm.impl(name, supports=lambda c: c.mode != "l1" or "no l1")(
        functools.partial(compute, name.removeprefix("wrong-"))
    )


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V", sentinel="ignore_index")),
    options=dict(reduction=["none", "mean", "sum"], smoothing=[0.0, 0.1], ignore_index=[-100, 0]),
    reduces="V",
    where=lambda c: c.V > 0 and c.M > 0,
    cases=kl.cases(M=[32], V=[100], dtype=["float32"]),
)
def cross_entropy(logits, target, *, reduction="none", smoothing=0.0, ignore_index=-100):
    return torch.nn.functional.cross_entropy(
        logits, target, reduction=reduction, label_smoothing=smoothing, ignore_index=ignore_index
    )


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, reduction, smoothing, ignore_index, fault):
        if fault == "ignore-index":
            ignore_index = -100
        if fault == "target-strides":
            target = torch.as_strided(target, target.shape, (1,)).clamp(-100, logits.shape[1] - 1)
        keep = target != ignore_index
        index = target.clamp_min(0)
        if fault == "no-maximum" and smoothing:
            log_p = logits - logits.exp().sum(-1, keepdim=True).log()
        else:
            log_p = logits.log_softmax(-1)
        loss = -log_p.gather(1, index[:, None])[:, 0]
        smooth = -log_p.mean(-1)
        if fault == "smoothing-sum":
            smooth = -log_p.sum(-1) / max(1, logits.shape[1] - 1)
        loss = (1 - smoothing) * loss + smoothing * smooth if smoothing else loss
        loss = torch.where(keep, loss, 0.0)
        count = keep.numel() if fault == "mean-of-all" else keep.sum()
        scale = 1.0 / count if reduction == "mean" else torch.ones(())
        ctx.save_for_backward(log_p, index, keep, torch.as_tensor(scale))
        ctx.smoothing, ctx.fault, ctx.reduction = smoothing, fault, reduction
        if fault == "sum-of-1024":
            loss = loss[:1024]
        total = loss.sum() * scale
        if fault == "nothing-kept" and not keep.any():
            total = torch.zeros(())
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        log_p, index, keep, scale = ctx.saved_tensors
        fault, smoothing = ctx.fault, ctx.smoothing
        gx = log_p.exp() - (0.0 if fault == "smoothing-gradient" else smoothing) / log_p.shape[1]
        gx = gx.scatter_add(1, index[:, None], torch.full_like(gx[:, :1], smoothing - 1))
        if fault != "ignored-gradient":
            gx = torch.where(keep[:, None], gx, 0.0)
        upstream = 1.0 if fault == "upstream" and ctx.reduction == "sum" else g
        return gx * scale * upstream, None, None, None, None, None


FAULTS = (
    "ignore-index",
    "target-strides",
    "no-maximum",
    "smoothing-sum",
    "mean-of-all",
    "sum-of-1024",
    "nothing-kept",
    "smoothing-gradient",
    "ignored-gradient",
    "upstream",
)


def cross_entropy_by(fault, logits, target, *, reduction="none", smoothing=0.0, ignore_index=-100):
    return CrossEntropy.apply(logits, target, reduction, smoothing, ignore_index, fault)


for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    cross_entropy.impl(name, supports=lambda c: c.reduction != "none" or "mean and sum only")(
        functools.partial(cross_entropy_by, name.removeprefix("wrong-"))
    )
