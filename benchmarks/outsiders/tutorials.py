"""Triton's tutorials at v3.7.1 (git clone --branch v3.7.1 https://github.com/triton-lang/triton).

TRITON_TUTORIALS names the folder python/tutorials of the checkout. Each tutorial runs when it is imported, so that only
its definitions are loaded.

    klab check benchmarks/outsiders/tutorials.py:matmul
"""

import functools
import os
from pathlib import Path

import torch
from torch.nn import functional

import kernellab as kl

TUTORIALS = Path(os.environ.get("TRITON_TUTORIALS", ""))

from definitions import load_definitions


@functools.cache
def load(file, *names):
    # cuBLAS, which a tutorial compares with, is not needed.
    return load_definitions(TUTORIALS / file, names, device_blas=None, device_workspace=None)


def aligned(t):
    """Tensor descriptors need memory aligned to 16 bytes, by their documentation and an assertion."""
    return t if t.data_ptr() % 16 == 0 else t.clone()


@kl.op(args=dict(x=kl.tensor("N"), y=kl.tensor("N")), cases=kl.cases(N=[98432], dtype=["float32", "float16"]))
def add(x, y):
    return x + y


@add.impl("triton", supports=lambda case: case.contiguous or "its kernel takes no strides")
def _(x, y):
    return load("01-vector-add.py", "add").add(x, y)


@kl.op(
    args=dict(x=kl.tensor("M N")),
    reduces="N",
    where=lambda case: case.M > 0 and case.N > 0,
    cases=kl.cases(M=[1823], N=[781], dtype=["float32"]),
)
def softmax(x):
    return torch.softmax(x, -1)


@softmax.impl(
    "triton",
    supports=lambda case: (case.contiguous and case.N <= 16384) or "its rows lie side by side, and fit in SRAM",
)
def _(x):
    return load("02-fused-softmax.py", "softmax").softmax(x)


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")),
    reduces="K",
    where=lambda case: min(case.M, case.N, case.K) > 0,
    cases=kl.cases(M=[512], K=[512], N=[512], dtype=["float16"]),
)
def matmul(a, b):
    return a @ b


@matmul.impl("triton", supports=lambda case: case.contiguous or "asserts that a is contiguous")
def _(a, b):
    return load("03-matrix-multiplication.py", "matmul").matmul(a, b)


@kl.op(
    args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")),
    reduces="N",
    where=lambda case: case.M > 0 and case.N > 0,
    cases=kl.cases(M=[1151], N=[8192], dtype=["float16"]),
)
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w, b, 1e-5)


@layer_norm.impl(
    "triton",
    supports=lambda case: (
        (case.contiguous and case.N * getattr(torch, case.dtype).itemsize <= 65536)
        or "its kernels take columns side by side, and it refuses rows of more than 64 KB"
    ),
)
def _(x, w, b):
    return load("05-layer-norm.py", "layer_norm").layer_norm(x, (x.shape[-1],), w, b, 1e-5)


@kl.op(
    args=dict(q=kl.tensor("B H S D"), k=kl.tensor("B H S D"), v=kl.tensor("B H S D")),
    options=dict(causal=[True, False]),
    reduces="S D",
    where=lambda case: case.B > 0 and case.H > 0 and case.S % 128 == 0 and case.S > 0 and case.D in (64, 128),
    cases=kl.cases(B=[1], H=[2], S=[1024], D=[64], dtype=["float16"]),
)
def attention(q, k, v, *, causal=True):
    scores = q @ k.transpose(-1, -2) * 0.5
    if causal:
        allowed = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    return torch.softmax(scores.float() if q.dtype == torch.float16 else scores, -1).to(q.dtype) @ v


@attention.impl("triton", supports=lambda case: case.contiguous or "asserts equal strides")
def _(q, k, v, *, causal=True):
    return load("06-fused-attention.py", "attention").attention(aligned(q), aligned(k), aligned(v), causal, 0.5, False)


@kl.op(args=dict(x=kl.tensor("N")), cases=kl.cases(N=[98432], dtype=["float32"]))
def asin(x):
    return torch.asin(torch.sin(x))


@asin.impl("triton", supports=lambda case: case.contiguous or "its kernel takes no strides")
def _(x):
    import triton

    x = torch.sin(x)
    y = torch.empty_like(x)
    kernel = load("07-extern-functions.py", "asin_kernel").asin_kernel
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK_SIZE=1024)
    return y


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("N K")),
    reduces="K",
    where=lambda case: min(case.M, case.N, case.K) > 0 and case.K % 8 == 0 and case.N % 8 == 0,
    cases=kl.cases(M=[512], K=[256], N=[512], dtype=["float16"]),
)
def persistent_matmul(a, b):
    return a @ b.T


@persistent_matmul.impl("triton", supports=lambda case: case.contiguous or "its descriptors need rows side by side")
def _(a, b):
    return load("09-persistent-matmul.py", "matmul_tma_persistent").matmul_tma_persistent(aligned(a), aligned(b), False)
