"""Flaw: neighbouring threads access neighbouring rows, far apart in memory. Fixed: neighbouring columns."""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N")),
    cases=kl.cases(shape=[(8192, 8192)], dtype=["float32"], cpu=dict(shape=[(64, 256)], dtype=["float32"])),
)
def shifted(x):
    return x + 1


@triton.jit
def shift(x_ptr, y_ptr, along, across, stride_along, stride_across, BLOCK: tl.constexpr):
    """A program takes BLOCK elements along one dim, at one place of the other."""
    place = tl.program_id(1).to(tl.int64)
    run = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = run.to(tl.int64) * stride_along + place * stride_across
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=run < along) + 1, mask=run < along)


def launch(x, dim):
    x = x.contiguous()
    y = torch.empty_like(x)
    along, across = x.shape[dim], x.shape[1 - dim]
    grid = (triton.cdiv(along, 1024), across)
    shift[grid](x, y, along, across, x.stride(dim), x.stride(1 - dim), 1024, num_warps=8)
    return y


shifted.impl("flawed", kind="triton")(lambda x: launch(x, 0))
shifted.impl("fixed", kind="triton")(lambda x: launch(x, 1))
