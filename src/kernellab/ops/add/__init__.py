"""Add: two tensors in, one out; the standard example of an op that only moves bytes."""

import torch

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("... N"), y=kl.tensor("... N")),
    cost=lambda x, y: kl.Cost(read=[x, y], write=[x]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 16384)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def add(x, y):
    """x + y, elementwise."""
    return x + y


@add.impl("torch")
def _(x, y):
    return torch.add(x, y)
