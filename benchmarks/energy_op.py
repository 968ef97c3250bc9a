"""An op whose implementations differ only in what they multiply: a product of random numbers, the same again, and one
of zeros. Zeros switch fewer bits and take less power. Every implementation also returns a copy of the op's small input,
so that its results can be verified.

A size R is one run of benchmarks/energy.py: the number means nothing else.
"""

from __future__ import annotations

import functools

import torch

import kernellab as kl

SIZE = {"cuda": 8192, "cpu": 512}


@functools.cache
def matrices(kind: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two matrices to multiply, and where the product goes."""
    size, generator = SIZE[device.type], torch.Generator(device).manual_seed(0)
    numbers = (torch.randn(size, size, device=device, generator=generator) for _ in range(3))
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return tuple((0 * each if kind == "zeros" else each).to(dtype) for each in numbers)


@kl.op(args=dict(x=kl.tensor("R")), cases=kl.cases(R=[1001], dtype=["float32"]), manual=False)
def product(x):
    """A copy of the input."""
    return x.clone()


def multiply(kind: str):
    def run(x):
        a, b, out = matrices(kind, x.device)
        torch.mm(a, b, out=out)
        return x.clone()

    return run


product.impl("random")(multiply("random"))
product.impl("random-again")(multiply("random"))
product.impl("zeros")(multiply("zeros"))
