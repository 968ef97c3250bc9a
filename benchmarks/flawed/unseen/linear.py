"""Flaw: a linear layer with tiles of 32 × 32: every operand is fetched 128 times, and tensor cores wait for L2.

Fixed: tiles of 128 × 256, in an order that keeps neighbours in L2.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M K"), w=kl.tensor("N K")),
    dims=dict(K="M", N="M"),
    reduces="K",
    cost=lambda x, w: kl.Cost(
        read=[x, w],
        write=[x.shape[0] * w.shape[0] * x.element_size()],
        flops={"matmul": 2 * x.shape[0] * x.shape[1] * w.shape[0]},
    ),
    cases=kl.cases(shape=[(4096,)], dtype=["bfloat16"], cpu=dict(shape=[(128,)], dtype=["float32"])),
)
def linear(x, w):
    return x @ w.mT


@triton.jit
def multiply(
    x_ptr, w_ptr, y_ptr, M, N, K,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, BAND: tl.constexpr,
):  # fmt: skip
    """y = x·wᵀ, all contiguous. Programs go down a band of BAND tiles before they go to the right."""
    downs, acrosses = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    band = tl.program_id(0) // (BAND * acrosses)
    inside = tl.program_id(0) % (BAND * acrosses)
    height = tl.minimum(downs - band * BAND, BAND)
    m = ((band * BAND + inside % height) * TILE_M + tl.arange(0, TILE_M)).to(tl.int64)
    n = ((inside // height) * TILE_N + tl.arange(0, TILE_N)).to(tl.int64)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, K, TILE_K):
        k = start + tl.arange(0, TILE_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        total = tl.dot(x, w, total)
    there = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], total.to(y_ptr.dtype.element_ty), mask=there)


def launch(x, w, tile_m, tile_n, tile_k, warps):
    x, w = x.contiguous(), w.contiguous()
    (M, K), N = x.shape, w.shape[0]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, tile_m) * triton.cdiv(N, tile_n),)
    multiply[grid](x, w, y, M, N, K, tile_m, tile_n, tile_k, 8, num_warps=warps, num_stages=3)
    return y


def narrow(case):
    """Triton's interpreter has no product of bfloat16: without a GPU, float32 stands in for it."""
    dtype = "float32" if case.device == "cpu" else "bfloat16"
    return case.dtype == dtype or f"{dtype} only"


linear.impl("flawed", kind="triton", supports=narrow)(lambda x, w: launch(x, w, 32, 32, 32, 4))
linear.impl("fixed", kind="triton", supports=narrow)(lambda x, w: launch(x, w, 128, 256, 64, 8))
