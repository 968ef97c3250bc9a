"""Kernels of flash-linear-attention 0.6.0 (pip install --no-deps flash-linear-attention==0.6.0 fla-core==0.6.0 einops).

klab check benchmarks/outsiders/linear_attention.py:layer_norm
"""

import torch
from fla.modules.activations import logsigmoid as fla_logsigmoid
from fla.modules.activations import sigmoid as fla_sigmoid
from fla.modules.activations import swiglu as fla_swiglu
from fla.modules.fused_cross_entropy.ops import cross_entropy_loss
from fla.modules.norm.l2norm import l2norm as fla_l2norm
from fla.modules.norm.layernorm import layer_norm as fla_layer_norm
from fla.modules.norm.layernorm import rms_norm as fla_rms_norm
from fla.modules.rotary.ops import rotary_embedding
from fla.ops.retention import chunk_retention
from fla.ops.simple_gla import chunk_simple_gla
from fla.ops.utils.cumsum import chunk_global_cumsum, chunk_local_cumsum
from fla.ops.utils.logsumexp import logsumexp_fwd
from fla.ops.utils.matmul import matmul as fla_matmul
from fla.ops.utils.pooling import mean_pooling
from fla.ops.utils.softmax import softmax_fwd
from torch.nn import functional

import kernellab as kl

ROWS = dict(M=[2048], N=[1024], dtype=["float32", "bfloat16"])
EPS = 1e-5


def is_filled(case):
    return case.M > 0 and case.N > 0


def fits_a_block(case):
    return case.N * getattr(torch, case.dtype).itemsize <= 65536 or "it refuses rows of more than 64 KB"


@kl.op(
    args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")),
    reduces="N",
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


@layer_norm.impl("triton", supports=fits_a_block)
def _(x, w, b):
    return fla_layer_norm(x, w, b, eps=EPS)


@kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def rms_norm(x, w):
    return functional.rms_norm(x, (x.shape[-1],), w, EPS)


@rms_norm.impl("triton", supports=fits_a_block)
def _(x, w):
    return fla_rms_norm(x, w, None, eps=EPS)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def l2norm(x):
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS)


@l2norm.impl("triton", supports=fits_a_block)
def _(x):
    return fla_l2norm(x, EPS)


@kl.op(args=dict(x=kl.tensor("M N")), where=is_filled, cases=kl.cases(**ROWS))
def sigmoid(x):
    return torch.sigmoid(x)


@sigmoid.impl("triton")
def _(x):
    return fla_sigmoid(x)


@kl.op(args=dict(x=kl.tensor("M N")), where=is_filled, cases=kl.cases(**ROWS))
def logsigmoid(x):
    return functional.logsigmoid(x)


@logsigmoid.impl("triton")
def _(x):
    return fla_logsigmoid(x)


@kl.op(args=dict(x=kl.tensor("M N"), y=kl.tensor("M N")), where=is_filled, cases=kl.cases(**ROWS))
def swiglu(x, y):
    return functional.silu(x) * y


@swiglu.impl("triton")
def _(x, y):
    return fla_swiglu(x, y)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def softmax(x):
    return torch.softmax(x, -1)


@softmax.impl("triton", supports=lambda case: case.contiguous or "its kernel takes no strides")
def _(x):
    return softmax_fwd(x, dtype=x.dtype)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def logsumexp(x):
    return torch.logsumexp(x, -1)


@logsumexp.impl("triton", supports=lambda case: case.contiguous or "its kernel takes no strides")
def _(x):
    return logsumexp_fwd(x, dtype=x.dtype)


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")),
    reduces="K",
    where=lambda case: min(case.M, case.K, case.N) > 0,
    cases=kl.cases(M=[512], K=[256], N=[512], dtype=["float16"]),
)
def matmul(a, b):
    return a @ b


@matmul.impl("triton")
def _(a, b):
    return fla_matmul(a, b)


@kl.op(
    args=dict(s=kl.tensor("B T H")),
    reduces="T",
    where=lambda case: min(case.B, case.T, case.H) > 0,
    cases=kl.cases(B=[4], T=[1024], H=[8], dtype=["float32"]),
)
def global_cumsum(s):
    return s.cumsum(1)


@global_cumsum.impl("triton")
def _(s):
    return chunk_global_cumsum(s)


@kl.op(
    args=dict(s=kl.tensor("B T H")),
    reduces="T",
    where=lambda case: min(case.B, case.T, case.H) > 0,
    cases=kl.cases(B=[4], T=[1024], H=[8], dtype=["float32"]),
)
def local_cumsum(s):
    parts = [part.cumsum(1) for part in s.split(64, 1)]
    return torch.cat(parts, 1)


@local_cumsum.impl("triton")
def _(s):
    return chunk_local_cumsum(s, 64)


@kl.op(
    args=dict(x=kl.tensor("B T H D")),
    reduces="T",
    where=lambda case: min(case.B, case.T, case.H, case.D) > 0,
    cases=kl.cases(B=[2], T=[1024], H=[4], D=[64], dtype=["float32"]),
)
def pooling(x):
    return torch.stack([part.mean(1) for part in x.split(64, 1)], 1)


@pooling.impl("triton")
def _(x):
    return mean_pooling(x, 64)


@kl.op(
    args=dict(logits=kl.tensor("M N"), target=kl.index("M", below="N", sentinel=-100)),
    reduces="N",
    where=is_filled,
    cases=kl.cases(M=[2048], N=[1024], dtype=["float32"]),
)
def cross_entropy(logits, target):
    return functional.cross_entropy(logits, target, reduction="none")


@cross_entropy.impl("triton")
def _(logits, target):
    return cross_entropy_loss(logits, target)[0]


@kl.op(
    args=dict(x=kl.tensor("B S H D")),
    where=lambda case: case.D % 2 == 0 and min(case.B, case.S, case.H, case.D) > 0,
    cases=kl.cases(B=[2], S=[512], H=[4], D=[64], dtype=["float32"]),
)
def rotary(x):
    cos, sin = angles(x)
    first, second = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


@rotary.impl("triton", supports=lambda case: case.D <= 256 or "asserts at most 256 columns")
def _(x):
    return rotary_embedding(x, *angles(x))


def angles(x):
    """Cosines and sines of rotary positions."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    phase = torch.arange(x.shape[1], dtype=torch.float64, device=x.device)[:, None] * rates
    return phase.cos().to(x.dtype), phase.sin().to(x.dtype)


HEADS = dict(B=[1], T=[256], H=[2], D=[64], dtype=["float32"])


def retained(q, k, v, log_decay):
    """Causal attention without softmax: position t sees position s with the decay from s to t."""
    decay = log_decay.cumsum(1).transpose(1, 2)
    weight = (decay[..., :, None] - decay[..., None, :]).tril().exp()
    scores = torch.einsum("bthd,bshd->bhts", q, k) * weight * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~torch.ones_like(weight, dtype=torch.bool).tril(), 0)  # not × 0: 0 × inf is NaN
    return torch.einsum("bhts,bshd->bthd", scores, v)


@kl.op(
    args=dict(q=kl.tensor("B T H D"), k=kl.tensor("B T H D"), v=kl.tensor("B T H D")),
    reduces="T D",
    where=lambda case: min(case.B, case.T, case.H) > 0 and case.D in (16, 32, 64, 128),
    cases=kl.cases(**HEADS),
)
def retention(q, k, v):
    heads = q.shape[2]
    gamma = torch.log(1 - torch.exp2(-5.0 - torch.arange(heads, dtype=torch.float64, device=q.device)))
    return retained(q, k, v, gamma.to(q.dtype).expand(*q.shape[:2], heads))


@retention.impl("triton")
def _(q, k, v):
    return chunk_retention(q, k, v)[0]


@kl.op(
    args=dict(q=kl.tensor("B T H D"), k=kl.tensor("B T H D"), v=kl.tensor("B T H D"), g=kl.tensor("B T H")),
    reduces="T D",
    where=lambda case: min(case.B, case.T, case.H) > 0 and case.D in (16, 32, 64, 128),
    cases=kl.cases(**HEADS),
)
def simple_gla(q, k, v, g):
    return retained(q, k, v, functional.logsigmoid(g))


@simple_gla.impl("triton")
def _(q, k, v, g):
    return chunk_simple_gla(q, k, v, functional.logsigmoid(g))[0]
