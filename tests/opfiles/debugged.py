"""Row sums in Triton: one that is wrong, one that raises in a helper, one with invalid pointers."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[512], N=[1000], dtype=["float32"]))
def rowsum(x):
    return x.sum(-1)


@triton.jit
def sums(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=1.0).to(tl.float32)  # the wrong part
    total = tl.sum(x, axis=0)
    if total > 1e30:
        total = total * 0  # never reached
    tl.store(y_ptr + row, total)


@triton.jit
def outer(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * N + tl.arange(0, BLOCK))
    tl.store(y_ptr + row, helper(x))


@triton.jit
def helper(x):
    return tl.sum(x + tl.arange(0, 64), axis=0)


@triton.jit
def wild(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK).to(tl.int64) * (1 << 40)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


def launch(kernel, x):
    y = torch.empty(x.shape[0], dtype=x.dtype)
    if x.numel():
        kernel[(x.shape[0],)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y


rowsum.impl("triton")(lambda x: launch(sums, x))
rowsum.impl("triton-raising")(lambda x: launch(outer, x))
rowsum.impl("triton-wild", supports=lambda case: case.N > 4 or "rows are too short")(lambda x: launch(wild, x))
