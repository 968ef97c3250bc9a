"""Faults in the gradient of one input alone, behind a domain: a linear layer with a bias, and a gated product."""

import functools

import torch

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
