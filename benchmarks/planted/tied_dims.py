"""Kernels whose dims depend on each other: attention with D of 64 or 128 and S in 64s, and squares alone."""

import functools

import torch
from torch.autograd.function import once_differentiable

import kernellab as kl


@kl.op(
    args=dict(q=kl.tensor("H S D"), k=kl.tensor("H S D"), v=kl.tensor("H S D")),
    options=dict(causal=[True, False]),
    cases=kl.cases(H=[2], S=[128], D=[64], dtype=["float32"]),
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


@kl.op(
    args=dict(q=kl.tensor("B H D"), k=kl.tensor("B G D")),
    dims=dict(G="H"),
    where=lambda c: c.G > 0 and c.H % c.G == 0,
    cases=kl.cases(B=[4], H=[8], G=[2], D=[32], dtype=["float32", "bfloat16"]),
)
def grouped(q, k):
    return q * k.repeat_interleave(q.shape[1] // k.shape[1], 1)


class Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, fault):
        share = q.shape[1] // k.shape[1]
        wide = k.repeat(1, share, 1) if fault == "not-interleaved" else k.repeat_interleave(share, 1)
        if fault == "groups-of-4":
            wide = k.repeat_interleave(max(4, share), 1)[:, : q.shape[1]] if share == 2 else wide
        if fault == "one-group" and k.shape[1] == 1 and q.shape[1] > 1:
            wide = k.new_zeros(wide.shape)
        if fault == "strides":
            wide = torch.as_strided(k, k.shape, (k.shape[1] * k.shape[2], k.shape[2], 1)).repeat_interleave(share, 1)
        ctx.save_for_backward(q, wide)
        ctx.groups, ctx.fault = k.shape[1], fault
        return q * wide

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, wide = ctx.saved_tensors
        gk = (g.float() * q.float()).unflatten(1, (ctx.groups, q.shape[1] // ctx.groups))
        gk = gk[:, :, :1].sum(2) if ctx.fault == "gradient-of-first-head" else gk.sum(2)
        if ctx.fault == "gradient-mean":
            gk = gk * ctx.groups / max(1, q.shape[1])
        return g * wide, gk.to(q.dtype), None


FAULTS = ("not-interleaved", "groups-of-4", "one-group", "strides", "gradient-of-first-head", "gradient-mean")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    grouped.impl(name, supports=lambda c: (c.D % 16 == 0 and c.D > 0 and c.H > 0) or "D in 16s")(
        functools.partial(lambda fault, q, k: Grouped.apply(q, k, fault), name.removeprefix("wrong-"))
    )


@kl.op(
    args=dict(x=kl.tensor("M 2*N")),
    cases=kl.cases(M=[48], N=[40], dtype=["float32", "float16"]),
)
def packed_gate(x):
    a, b = x.chunk(2, -1) if x.shape[-1] else (x, x)
    return a * torch.sigmoid(b)


class PackedGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, fault):
        ctx.save_for_backward(x)
        ctx.fault = fault
        n = x.shape[1] // 2
        a, b = x[:, :n].float(), x[:, n:].float().clone()
        if fault == "pairs":  # a and b beside each other
            a, b = x[:, ::2].float(), x[:, 1::2].float()
        if fault == "second-half-aligned" and n > 8:  # the second half starts at a multiple of 8
            b = x[:, n // 8 * 8 :][:, :n].float()
        if fault == "no-guard":  # exp(b) / (1 + exp(b)) is inf / inf
            return (a * b.exp() / (1 + b.exp())).to(x.dtype)
        if fault == "columns-64":
            b[:, 64:] = 0
        return (a * b.sigmoid()).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        n = x.shape[1] // 2
        a, s, g = x[:, :n].float(), x[:, n:].float().sigmoid(), g.float()
        gb = g * a * s * (1 - s)
        if ctx.fault == "gate-gradient":
            gb = g * a * s
        gx = torch.cat([g * s, gb], -1)
        if ctx.fault == "gate-gradient-not-written":
            gx = torch.empty_like(gx)
            gx[:, :n] = g * s
            gx[:, n : 2 * n // 4 * 4] = gb[:, : max(0, 2 * n // 4 * 4 - n)]
        return gx.to(x.dtype), None


FAULTS = ("pairs", "second-half-aligned", "no-guard", "columns-64", "gate-gradient", "gate-gradient-not-written")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    packed_gate.impl(name, supports=lambda c: c.N > 0 or "not empty")(
        functools.partial(lambda fault, x: PackedGate.apply(x, fault), name.removeprefix("wrong-"))
    )
