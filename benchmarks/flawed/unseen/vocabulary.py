"""Flaw: the maximum of a row in one loop, the sum of exponentials in a second: the row comes from memory twice.

A thousand rows of 256 KB at once do not fit into L2. Fixed: one loop that rescales the sum when the maximum grows.
"""

import torch
import triton
import triton.language as tl

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M V")),
    reduces="V",
    dtypes=["float32"],
    cases=kl.cases(shape=[(2048, 65536)], dtype=["float32"], cpu=dict(shape=[(8, 4096)], dtype=["float32"])),
)
def vocabulary(x):
    """What the logits of a vocabulary are normalised by: log Σ exp along the row."""
    return torch.logsumexp(x, dim=-1)


@triton.jit
def finite(top):
    """What to subtract: nothing where the largest is infinite, as ∞ − ∞ is not a number."""
    return tl.where(tl.abs(top) == float("inf"), 0.0, top)


@triton.jit
def two_loops(x_ptr, y_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * V
    tops = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tops = tl.maximum(tops, tl.load(x_ptr + row + at, mask=at < V, other=-float("inf")))
    shift = finite(tl.max(tops, axis=0))
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.exp(tl.load(x_ptr + row + at, mask=at < V, other=-float("inf")) - shift)
    tl.store(y_ptr + tl.program_id(0), shift + tl.log(tl.sum(sums, axis=0)))


@triton.jit
def one_loop(x_ptr, y_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * V
    top = -float("inf")
    shift = 0.0
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + at, mask=at < V, other=-float("inf"))
        top = tl.maximum(top, tl.max(x, axis=0))
        now = finite(top)
        # Nothing is summed before the first finite value: what the scale would be there does not matter.
        sums = tl.where(sums == 0.0, 0.0, sums * tl.exp(shift - now)) + tl.exp(x - now)
        shift = now
    tl.store(y_ptr + tl.program_id(0), shift + tl.log(tl.sum(sums, axis=0)))


def launch(kernel, x):
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](x, y, x.shape[1], 2048, num_warps=4)
    return y


vocabulary.impl("flawed", kind="triton")(lambda x: launch(two_loops, x))
vocabulary.impl("fixed", kind="triton")(lambda x: launch(one_loop, x))
