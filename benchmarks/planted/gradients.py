"""Faults in the gradient of one input alone, behind a domain: a linear layer with a bias, and a gated product."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M K"), w=kl.tensor("N K"), b=kl.optional(kl.tensor("N"))),
    reduces="K",
    cases=kl.cases(M=[128], K=[64], N=[64], dtype=["float32"]),
)
def linear(x, w, b=None):
    return torch.nn.functional.linear(x, w, b)


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, fault):
        ctx.save_for_backward(x, w)
        ctx.fault, ctx.bias = fault, b is not None
        return x @ w.mT + (0 if b is None else b)

    @staticmethod
    def backward(ctx, g):
        (x, w), fault = ctx.saved_tensors, ctx.fault
        gx, gw, gb = g @ w, g.mT @ x, g.sum(0)
        if fault == "bias-first-64-rows":
            gb = g[:64].sum(0)
        if fault == "bias-late-rows":
            gb = g[:2048].sum(0)
        if fault == "weight-late-rows":
            gw = g[:2048].mT @ x[:2048]
        if fault == "weight-sign" and not ctx.bias:
            gw = -gw
        if fault == "input-frozen-weight" and not ctx.needs_input_grad[1]:
            gx = gx * 1.01
        if fault == "upstream-strides":
            gx = torch.as_strided(g, g.shape, (g.shape[1], 1)) @ w if g.stride(0) == 1 else gx
        if fault == "input-transposed-weight" and w.stride(-1) != 1:
            gx = gx * 0
        return gx, gw, gb if ctx.bias else None, None


FAULTS = (
    "bias-first-64-rows",
    "bias-late-rows",
    "weight-late-rows",
    "weight-sign",
    "input-frozen-weight",
    "upstream-strides",
    "input-transposed-weight",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    linear.impl(name, supports=lambda c: (c.K % 16 == 0 and c.N % 16 == 0 and c.K * c.N > 0) or "K and N in 16s")(
        functools.partial(lambda fault, x, w, b=None: Linear.apply(x, w, b, fault), name.removeprefix("wrong-"))
    )


@kl.op(
    args=dict(table=kl.tensor("V D"), index=kl.index("M", below="V"), bias=kl.tensor("D")),
    where=lambda c: c.V > 0,
    cases=kl.cases(V=[50], D=[32], M=[64], dtype=["float32"]),
)
def embed(table, index, bias):
    return table[index] + bias


class Embed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, index, bias, fault):
        ctx.save_for_backward(index)
        ctx.fault, ctx.rows = fault, table.shape[0]
        return table[index] + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (index,), fault = ctx.saved_tensors, ctx.fault
        gt = g.new_zeros(ctx.rows, g.shape[1])
        if fault == "last-one-wins":
            gt[index] = g
        else:
            gt = gt.index_add(0, index, g)
        if fault == "row-0":  # row 0 is taken for padding
            gt[0] = 0
        if fault == "late-indices":
            gt = g.new_zeros(gt.shape).index_add(0, index[:512], g[:512])
        gb = g.sum(0)
        if fault == "bias-mean":
            gb = g.mean(0)
        if fault == "bias-only" and not ctx.needs_input_grad[0]:  # the pass that is shared with the table is skipped
            gb = gb * 0
        if fault == "bias-columns":
            gb[1024:] = 0
        return gt, None, gb, None


FAULTS = ("last-one-wins", "row-0", "late-indices", "bias-mean", "bias-only", "bias-columns")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    embed.impl(name, supports=lambda c: (c.D % 8 == 0 and c.D > 0) or "D in 8s")(
        functools.partial(
            lambda fault, table, index, bias: Embed.apply(table, index, bias, fault), name.removeprefix("wrong-")
        )
    )


@kl.op(
    args=dict(x=kl.tensor("B S D"), scale=kl.tensor("S D"), shift=kl.tensor("B 1 D")),
    cases=kl.cases(B=[4], S=[24], D=[16], dtype=["float32", "bfloat16"]),
)
def modulate(x, scale, shift):
    return x * (1 + scale) + shift


class Modulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift, fault):
        ctx.save_for_backward(x, scale)
        ctx.fault = fault
        return (x.float() * (1 + scale.float()) + shift.float()).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x, scale), fault = ctx.saved_tensors, ctx.fault
        g = g.float()
        gx = g * (scale.float() if fault == "one-forgotten" else 1 + scale.float())
        gs, gh = (g * x.float()).sum(0), g.sum(1, keepdim=True)
        if fault == "scale-first-batch":
            gs = (g * x.float())[:1].sum(0)
        if fault == "scale-16-batches":
            gs = (g * x.float())[:16].sum(0)
        if fault == "shift-odd-length" and x.shape[1] % 2:
            gh = g[:, :-1].sum(1, keepdim=True)
        if fault == "shift-batches-mixed":
            gh = g.sum((0, 1), keepdim=True).expand(gh.shape)
        if fault == "shift-shape":
            gh = gh[:, 0]
        if fault == "scale-saved-in-8-bits":
            gs = (g * (x.float() * 16).round() / 16).sum(0)
        return gx.to(x.dtype), gs.to(x.dtype), gh.to(x.dtype), None


FAULTS = (
    "one-forgotten",
    "scale-first-batch",
    "scale-16-batches",
    "shift-odd-length",
    "shift-batches-mixed",
    "shift-shape",
    "scale-saved-in-8-bits",
)
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    modulate.impl(name, supports=lambda c: (c.D % 4 == 0 and c.D > 0) or "D in 4s")(
        functools.partial(
            lambda fault, x, scale, shift: Modulate.apply(x, scale, shift, fault), name.removeprefix("wrong-")
        )
    )
