"""Flaw: a bfloat16 matmul widened to float32, by multiply-adds. Fixed: bfloat16 operands on tensor cores."""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")),
    dims=dict(K="M", N="M"),
    reduces="K",
    where=lambda case: case.M % 64 == 0 and case.N % 64 == 0 and case.K % 64 == 0,
    cost=lambda a, b: kl.Cost(
        read=[a, b],
        write=[a.shape[0] * b.shape[1] * a.element_size()],
        flops={"matmul": 2 * a.shape[0] * a.shape[1] * b.shape[1]},
    ),
    cases=kl.cases(shape=[(4096,)], dtype=["bfloat16"], cpu=dict(shape=[(128,)], dtype=["float32"])),
)
def product(a, b):
    return a @ b


@triton.jit
def multiply(
    a_ptr, b_ptr, c_ptr, M, N, K,
    WIDEN: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """c = a·b, all contiguous, sizes multiples of the tile."""
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    n = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for k in range(0, K, TILE_K):
        at = k + tl.arange(0, TILE_K)
        a = tl.load(a_ptr + m[:, None] * K + at[None, :])
        b = tl.load(b_ptr + at[:, None] * N + n[None, :])
        if WIDEN:
            total = tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
        else:
            total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty))


def launch(a, b, widen, tile, warps):
    a, b = a.contiguous(), b.contiguous()
    (M, K), N = a.shape, b.shape[1]
    # What divides both: a tile is a power of two, a size a multiple of 64 or nothing, which every tile divides.
    tile_m, tile_n, tile_k = (math.gcd(t, s) for t, s in zip(tile, (M, N, K), strict=True))
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (M // tile_m, N // tile_n)
    multiply[grid](a, b, c, M, N, K, widen, tile_m, tile_n, tile_k, num_warps=warps, num_stages=3)
    return c


product.impl("flawed", kind="triton")(lambda a, b: launch(a, b, True, (64, 64, 32), 4))
product.impl("fixed", kind="triton")(lambda a, b: launch(a, b, False, (128, 256, 64), 8))
