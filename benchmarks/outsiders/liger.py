"""Kernels of Liger 0.8.5 (pip install --no-deps liger-kernel==0.8.5), each as the library calls it.

klab check benchmarks/outsiders/liger.py:rms_norm
"""

import torch
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.dyt import LigerDyTFunction
from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.group_norm import LigerGroupNormFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.poly_norm import LigerPolyNormFunction
from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.sparsemax import LigerSparsemaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from torch.nn import functional

import kernellab as kl

ROWS = dict(M=[2048], N=[4096], dtype=["bfloat16", "float32"])
EPS = 1e-6


def is_accepted(case):
    return 0 < case.N <= 65536 and case.M > 0  # the library refuses wider rows


def rows(**more):
    return dict(reduces="N", where=is_accepted, cases=kl.cases(**ROWS), **more)


@kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N")), **rows())
def rms_norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * w


@rms_norm.impl("torch")
def _(x, w):
    return functional.rms_norm(x, (x.shape[-1],), w, EPS)


@rms_norm.impl("triton")
def _(x, w):
    return LigerRMSNormFunction.apply(x, w, EPS, 0.0, "llama", False)


@kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")), **rows())
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


@layer_norm.impl("triton")
def _(x, w, b):
    return LigerLayerNormFunction.apply(x, w, b, EPS)


@kl.op(args=dict(x=kl.tensor("M N"), r=kl.tensor("M N"), w=kl.tensor("N")), **rows())
def fused_add_rms_norm(x, r, w):
    s = x + r
    return s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + EPS) * w, s


@fused_add_rms_norm.impl("triton")
def _(x, r, w):
    return LigerFusedAddRMSNormFunction.apply(x, r, w, EPS, 0.0, "llama", False)


@kl.op(args=dict(x=kl.tensor("M N")), **rows())
def softmax(x):
    return torch.softmax(x, -1)


@softmax.impl("triton")
def _(x):
    return LigerSoftmaxFunction.apply(x)


@kl.op(args=dict(x=kl.tensor("M N")), **rows())
def sparsemax(x):
    wide = x if x.dtype == torch.float64 else x.float()  # in 16 bits the sums would say nothing
    ordered = wide.sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, dtype=wide.dtype, device=x.device)
    sums = ordered.cumsum(-1) - 1
    support = (ordered * count > sums).sum(-1, keepdim=True).clamp(min=1)  # NaN is in no support
    threshold = sums.gather(-1, support - 1) / support.to(wide.dtype)
    return torch.clamp(wide - threshold, min=0).to(x.dtype)


@sparsemax.impl("triton")
def _(x):
    return LigerSparsemaxFunction.apply(x, -1)


@kl.op(args=dict(a=kl.tensor("M N"), b=kl.tensor("M N")), cases=kl.cases(**ROWS), where=lambda case: case.N > 0)
def geglu(a, b):
    return functional.gelu(a, approximate="tanh") * b


@geglu.impl("triton")
def _(a, b):
    return LigerGELUMulFunction.apply(a, b)


@kl.op(args=dict(a=kl.tensor("M N"), b=kl.tensor("M N")), cases=kl.cases(**ROWS), where=lambda case: case.N > 0)
def swiglu(a, b):
    return functional.silu(a) * b


@swiglu.impl("triton")
def _(a, b):
    return LigerSiLUMulFunction.apply(a, b)


@kl.op(args=dict(x=kl.tensor("M N")), cases=kl.cases(**ROWS), where=lambda case: case.N > 0)
def relu_squared(x):
    return torch.relu(x).square()


@relu_squared.impl("triton")
def _(x):
    return LigerReLUSquaredFunction.apply(x)


@kl.op(args=dict(x=kl.tensor("M N"), g=kl.tensor("N"), b=kl.tensor("N")), **rows())
def dyt(x, g, b):
    return g * torch.tanh(0.5 * x) + b


@dyt.impl("triton")
def _(x, g, b):
    return LigerDyTFunction.apply(x, torch.full((1,), 0.5, dtype=x.dtype, device=x.device), g, b)


@kl.op(
    args=dict(x=kl.tensor("B C H"), w=kl.tensor("C"), b=kl.tensor("C")),
    reduces="C H",
    where=lambda case: case.C % 4 == 0 and case.C > 0 and case.H > 0 and case.B > 0,
    cases=kl.cases(B=[16], C=[64], H=[1024], dtype=["float32"]),
)
def group_norm(x, w, b):
    groups = x.reshape(x.shape[0], 4, -1)
    centred = groups - groups.mean(-1, keepdim=True)
    normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)
    return normed.reshape(x.shape) * w[:, None] + b[:, None]


@group_norm.impl("triton")
def _(x, w, b):
    return LigerGroupNormFunction.apply(x, w, b, x.shape[1], 4, EPS)


@kl.op(args=dict(x=kl.tensor("M N")), **rows())
def poly_norm(x):
    def normed(u):
        return u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + EPS)

    return (normed(x**3) + normed(x**2) + normed(x)) / 3 + 1


@poly_norm.impl("triton")
def _(x):
    weight = torch.full((3,), 1 / 3, dtype=x.dtype, device=x.device)
    return LigerPolyNormFunction.apply(x, weight, torch.ones(1, dtype=x.dtype, device=x.device), EPS, False)


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V", sentinel=-100)),
    options=dict(reduction=["mean", "sum"], label_smoothing=[0.0, 0.1]),
    reduces="V",
    where=lambda case: case.M > 0 and case.V > 0,
    cases=kl.cases(M=[1024], V=[32000], dtype=["float32", "bfloat16"]),
)
def cross_entropy(logits, target, *, reduction="mean", label_smoothing=0.0):
    return functional.cross_entropy(logits, target, reduction=reduction, label_smoothing=label_smoothing)


@cross_entropy.impl("triton", mutates=["logits"], grad_in_forward=True)
def _(logits, target, *, reduction="mean", label_smoothing=0.0):
    return LigerCrossEntropyFunction.apply(logits, target, None, -100, 0.0, label_smoothing, reduction)[0]


def angles(seq, dim, like):
    """Cosines and sines of rotary positions, each pair of columns equal."""
    rates = 10000.0 ** (-torch.arange(0, dim // 2, dtype=torch.float64, device=like.device) / (dim // 2))
    phase = torch.arange(seq, dtype=torch.float64, device=like.device)[:, None] * rates
    phase = torch.cat([phase, phase], -1)
    return phase.cos().to(like.dtype), phase.sin().to(like.dtype)


@kl.op(
    args=dict(q=kl.tensor("B H S D"), k=kl.tensor("B H S D")),
    where=lambda case: case.D % 2 == 0 and min(case.B, case.H, case.S, case.D) > 0,
    cases=kl.cases(B=[2], H=[8], S=[512], D=[128], dtype=["float32", "bfloat16"]),
)
def rope(q, k):
    cos, sin = angles(q.shape[2], q.shape[3], q)

    def turned(x):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    return turned(q), turned(k)


@rope.impl("triton")
def _(q, k):
    cos, sin = angles(q.shape[2], q.shape[3], q)
    # It turns its arguments in place.
    return LigerRopeFunction.apply(q.clone(), k.clone(), cos[None], sin[None])
