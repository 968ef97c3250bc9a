"""Faults beyond many rows: a grid that is too short, offsets in 16 bits. Layer norm over leading dims, and copies."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("... N"), w=kl.tensor("N"), b=kl.tensor("N")),
    reduces="N",
    cases=kl.cases(shape=[(128, 64)], dtype=["float32"]),
)
def layer_norm(x, w, b):
    return torch.nn.functional.layer_norm(x, w.shape, w, b)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, fault):
        ctx.fault = fault
        centred = x - x.mean(-1, keepdim=True)
        r = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        normal = centred * r
        ctx.save_for_backward(normal, r, w)
        out = normal * w + b
        limit = {"rows-1024": 1024, "rows-65536": 65536}.get(fault)
        if limit is not None and out.numel():
            rows = out.reshape(-1, out.shape[-1])
            rows[limit:] = 0
            out = rows.view(out.shape)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        normal, r, w = ctx.saved_tensors
        gn = g * w
        gx = r * (gn - gn.mean(-1, keepdim=True) - normal * (gn * normal).mean(-1, keepdim=True))
        gw, gb = ((t.reshape(-1, w.numel()) if w.numel() else t.new_zeros(1, 0)) for t in (g * normal, g))
        limits = {"weight-1024": (1024, None), "bias-2048": (None, 2048), "weight-4096": (4096, None)}
        first, second = limits.get(ctx.fault, (None, None))
        return gx, gw[:first].sum(0), gb[:second].sum(0), None


FAULTS = ("rows-1024", "rows-65536", "weight-1024", "bias-2048", "weight-4096")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    layer_norm.impl(name, supports=lambda c: (c.N % 8 == 0 and c.N >= 8) or "N in 8s")(
        functools.partial(lambda fault, x, w, b: LayerNorm.apply(x, w, b, fault), name.removeprefix("wrong-"))
    )


@kl.op(cases=kl.cases(shape=[(64, 64)], dtype=["float32"]))
def row_mean(x):
    return x.mean(-1) if x.dim() else x


def mean_by(fault, x):
    out = x.sum(-1) / max(1, x.shape[-1]) if x.dim() else x
    if fault == "rows-2048" and x.dim() > 1 and x.shape[0] > 2048:
        out[2048:] = 0
    if x.dim() and not x.shape[-1]:
        out = torch.full_like(out, torch.nan)
    return out


for name in ("right", "wrong-rows-2048"):
    row_mean.impl(name, supports=lambda c: len(c.shape) == 2 or "matrices only")(
        functools.partial(mean_by, name.removeprefix("wrong-"))
    )


@kl.op(
    args=dict(x=kl.tensor("M N"), keep=kl.mask("M N")),
    reduces="N",
    where=lambda c: c.N > 0,
    cases=kl.cases(M=[64], N=[32], dtype=["float32"]),
)
def masked_max(x, keep):
    return x.masked_fill(~keep, -torch.inf).amax(-1)


def masked_max_by(fault, x, keep):
    y = x.masked_fill(~keep, -1e4 if fault == "finite-mask" else -torch.inf)
    out = y.amax(-1)
    if fault == "rows-4096":
        out[4096:] = x[4096:].amax(-1)
    if fault == "row-number-in-15-bits" and x.shape[0] > 32768:
        out[32768:] = out[: x.shape[0] - 32768]
    if fault == "mask-strides":
        mask = torch.as_strided(keep, keep.shape, x.stride())
        out = x.masked_fill(~mask, -torch.inf).amax(-1)
    if fault == "mask-of-first-row":
        out = x.masked_fill(~keep[:1], -torch.inf).amax(-1)
    if fault == "nan":
        out = torch.where(y.isnan(), -torch.inf, y).amax(-1)
    if fault == "last-of-odd" and x.shape[0] % 2 and x.shape[0] > 1:
        out[-1] = out[-2]
    return out


FAULTS = (
    "finite-mask",
    "rows-4096",
    "row-number-in-15-bits",
    "mask-strides",
    "mask-of-first-row",
    "nan",
    "last-of-odd",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    masked_max.impl(name, supports=lambda c: (c.N % 8 == 0 and c.M > 0) or "N in 8s")(
        functools.partial(masked_max_by, name.removeprefix("wrong-"))
    )
