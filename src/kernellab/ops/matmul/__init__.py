"""Matmul: a·b for two matrices. Its reference is PyTorch's own op: no plainer implementation is worth timing."""

import torch

import kernellab as kl


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")),
    dims=dict(K="M", N="M"),
    reduces="K",
    cost=lambda a, b: kl.Cost(
        read=[a, b],
        write=[a.shape[0] * b.shape[1] * a.element_size()],
        flops={"matmul": 2 * a.shape[0] * a.shape[1] * b.shape[1]},
    ),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(4096,), (8192,)],
        dtype=["bfloat16", "float32"],
        cpu=dict(shape=[(1024,)], dtype=["float32"]),
    ),
    manual=False,
)
def matmul(a, b):
    """Σₖ a[m, k]·b[k, n]."""
    return a @ b


@matmul.impl("torch")
def _(a, b):
    return torch.matmul(a, b)
