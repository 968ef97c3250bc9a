"""Kernels whose dims depend on each other: attention with D of 64 or 128 and S in 64s, and squares alone."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(q=kl.tensor("H S D"), k=kl.tensor("H S D"), v=kl.tensor("H S D")),
    options=dict(causal=[True, False]),
    cases=kl.cases(H=[4], S=[512], D=[64], dtype=["float32"]),
)
def attention(q, k, v, *, causal=True):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ v


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, fault):
        heads, length, width = q.shape
        scale = 64**-0.5 if fault == "scale" else width**-0.5
        if fault == "key-strides":
            k = torch.as_strided(k, k.shape, q.stride())
        scores = q @ k.mT * scale
        if causal:
            diagonal = 2 if fault == "diagonal" else 1
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(diagonal), -torch.inf)
        if fault == "late-keys" and length > 1024:
            scores[:, :, 1024:] = -torch.inf
        weights = scores.softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale, ctx.causal, ctx.fault = scale, causal, fault
        out = weights @ v
        if fault == "heads" and heads > 8:
            out[8:] = out[:1]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, weights = ctx.saved_tensors
        gv = weights.mT @ g
        gw = g @ v.mT
        delta = (gw * weights).sum(-1, keepdim=True)
        if ctx.fault == "not-causal-gradient" and not ctx.causal:
            delta = delta * 0
        gs = weights * (gw - delta) * ctx.scale
        gk = gs.mT @ q
        if ctx.fault == "key-gradient" and q.shape[1] > 128:
            gk[:, 128:] *= 2
        return gs @ k, gk, gv, None, None


FAULTS = ("scale", "key-strides", "diagonal", "late-keys", "heads", "not-causal-gradient", "key-gradient")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    attention.impl(
        name, supports=lambda c: (c.S % 64 == 0 and c.S > 0 and c.D in (64, 128)) or "S in 64s, D 64 or 128"
    )(
        functools.partial(
            lambda fault, q, k, v, *, causal=True: Attention.apply(q, k, v, causal, fault), name.removeprefix("wrong-")
        )
    )


@kl.op(args=dict(x=kl.tensor("M N")), cases=kl.cases(M=[256], N=[256], dtype=["float32", "bfloat16"]))
def symmetrise(x):
    return (x.triu() + x.tril().mT[: x.shape[0], : x.shape[1]]) if x.shape[0] == x.shape[1] else x


def symmetrise_by(fault, x):
    out = x.triu() + x.tril().mT
    n = x.shape[0]
    if fault == "blocks-of-32" and n % 32:
        out[n // 32 * 32 :] = x[n // 32 * 32 :]
    if fault == "beyond-512" and n > 512:
        out[512:] = 0
    if fault == "strides":
        out = torch.as_strided(x, x.shape, (n, 1)).triu() + torch.as_strided(x, x.shape, (n, 1)).tril().mT
    return out


for name in ("right", "wrong-blocks-of-32", "wrong-beyond-512", "wrong-strides"):
    symmetrise.impl(name, supports=lambda c: (c.M == c.N and c.M > 0) or "squares only")(
        functools.partial(symmetrise_by, name.removeprefix("wrong-"))
    )
