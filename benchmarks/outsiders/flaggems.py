"""Kernels of FlagGems 5.0.2 (pip install --no-deps flag_gems==5.0.2 pyyaml sqlalchemy packaging).

It needs Triton 3.6 (pip install --no-deps --target DIR triton==3.6.0, with DIR first in PYTHONPATH): it launches a
kernel a second time in a way that Triton 3.7 no longer has.

klab inspect benchmarks/outsiders/flaggems.py:softmax
"""

import flag_gems
import torch
from torch.nn import functional

import kernellab as kl

ROWS = dict(M=[2048], N=[1024], dtype=["float32", "bfloat16"])
EPS = 1e-5


def is_filled(case):
    return case.M > 0 and case.N > 0


@kl.op(
    args=dict(x=kl.tensor("M N")),
    options=dict(approximate=["none", "tanh"]),
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def gelu(x, *, approximate="none"):
    return functional.gelu(x, approximate=approximate)


@gelu.impl("triton")
def _(x, *, approximate="none"):
    return flag_gems.gelu(x, approximate=approximate)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def softmax(x):
    return torch.softmax(x, -1)


@softmax.impl("triton")
def _(x):
    return flag_gems.softmax(x, -1)


@kl.op(
    args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")),
    reduces="N",
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


@layer_norm.impl("triton")
def _(x, w, b):
    return flag_gems.layer_norm(x, (x.shape[-1],), w, b, EPS)[0]


@kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def rms_norm(x, w):
    return functional.rms_norm(x, (x.shape[-1],), w, EPS)


@rms_norm.impl("triton")
def _(x, w):
    return flag_gems.rms_norm(x, (x.shape[-1],), w, EPS)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def row_sum(x):
    return x.sum(-1)


@row_sum.impl("triton")
def _(x):
    return flag_gems.sum_dim(x, [-1])


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
    return flag_gems.mm(a, b)
