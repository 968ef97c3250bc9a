"""Kernel files of Unsloth at commit 015bdef (git clone https://github.com/unslothai/unsloth).

UNSLOTH_PATH names the checkout. Only the files under unsloth/kernels are read; what they import from the rest of the
package is given to them here.

    klab check benchmarks/outsiders/unsloth.py:rms_norm
"""

import functools
import os
from pathlib import Path

import torch
from torch.nn import functional

import kernellab as kl

KERNELS = Path(os.environ.get("UNSLOTH_PATH", "")) / "unsloth" / "kernels"

from definitions import load_definitions, names_for_unsloth

ROWS = dict(M=[2048], N=[4096], dtype=["float32", "bfloat16"])
EPS = 1e-6


@functools.cache
def load(file, *names):
    return load_definitions(KERNELS / file, names, **names_for_unsloth())


def is_filled(case):
    return case.M > 0 and case.N > 0


@kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def rms_norm(x, w):
    return functional.rms_norm(x, (x.shape[-1],), w.detach(), EPS)


# Only inputs come from outside: weights and bias are the layer's own parameters.
@rms_norm.impl("triton", contiguous=["w"])
def _(x, w):
    return load("rms_layernorm.py", "Fast_RMS_Layernorm").Fast_RMS_Layernorm.apply(x, w.detach(), EPS, False)


@kl.op(
    args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")),
    reduces="N",
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w.detach(), b.detach(), EPS)


# Only inputs come from outside: weights and bias are the layer's own parameters.
@layer_norm.impl("triton", contiguous=["w", "b"])
def _(x, w, b):
    return load("layernorm.py", "Fast_Layernorm").Fast_Layernorm.apply(x, w.detach(), b.detach(), EPS)


@kl.op(
    args=dict(e=kl.tensor("M N"), g=kl.tensor("M N")),
    options=dict(approximate=["none", "tanh"]),
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def geglu(e, g, *, approximate="none"):
    return functional.gelu(e, approximate=approximate) * g


@geglu.impl("triton", supports=lambda case: case.contiguous or "its kernel takes no strides")
def _(e, g, *, approximate="none"):
    name = "geglu_exact_forward_kernel" if approximate == "none" else "geglu_approx_forward_kernel"
    return getattr(load("geglu.py", name), name)(e[None], g[None])[0]


@kl.op(args=dict(e=kl.tensor("M N"), g=kl.tensor("M N")), where=is_filled, cases=kl.cases(**ROWS))
def swiglu(e, g):
    return functional.silu(e) * g


@swiglu.impl("triton", supports=lambda case: case.contiguous or "its kernel takes no strides")
def _(e, g):
    return load("swiglu.py", "swiglu_fg_kernel").swiglu_fg_kernel(e[None], g[None])[0]


@kl.op(
    args=dict(logits=kl.tensor("M N"), target=kl.index("M", below="N", sentinel=-100)),
    reduces="N",
    where=is_filled,
    cases=kl.cases(M=[1024], N=[32000], dtype=["float32"]),
)
def cross_entropy(logits, target):
    return functional.cross_entropy(logits, target, reduction="none")


@cross_entropy.impl("triton", supports=lambda case: case.contiguous or "its kernel takes columns side by side")
def _(logits, target):
    return load("cross_entropy_loss.py", "Fast_CrossEntropyLoss").Fast_CrossEntropyLoss.apply(logits, target)


@kl.op(
    args=dict(q=kl.tensor("B S H D")),
    where=lambda case: case.D % 2 == 0 and min(case.B, case.S, case.H, case.D) > 0,
    cases=kl.cases(B=[2], S=[512], H=[4], D=[64], dtype=["float32"]),
)
def rope(q):
    cos, sin = angles(q)
    first, second = q.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


@rope.impl("triton")
def _(q):
    # It turns its argument in place.
    return load("rope_embedding.py", "Fast_RoPE_Embedding").Fast_RoPE_Embedding.apply(q.clone(), *angles(q))


def angles(q):
    """Cosines and sines of rotary positions."""
    half = q.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=q.device) / half)
    phase = torch.arange(q.shape[1], dtype=torch.float64, device=q.device)[:, None] * rates
    return phase.cos().to(q.dtype), phase.sin().to(q.dtype)
