"""Rotary position embedding of queries and keys: pairs of columns turned by an angle that grows with the position.

`interleaved` pairs neighbouring columns. Otherwise column i of the first half is paired with column i of the second, as
in Llama and its relatives. The tables have one angle for each pair.
"""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.rope.heads import CONTRACT, rotation_passes


@kl.op(
    args=dict(
        q=kl.tensor("B H S D"),
        k=kl.tensor("B G S D"),
        cos=kl.tensor("S D/2", values=kl.angle_table("cos", repeat=None), gradient=False),
        sin=kl.tensor("S D/2", values=kl.angle_table("sin", repeat=None), gradient=False),
    ),
    options=dict(interleaved=[False, True]),
    cost=lambda q, k, cos, sin, **_: kl.Cost(read=[q, k, cos, sin], write=[q, k]),
    grad_cost=lambda q, k, cos, sin, **_: kl.Cost(read=[q, k, cos, sin], write=[q, k]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        B=[4],
        H=[32],
        G=[8],
        S=[4096],
        D=[128],
        dtype=["bfloat16", "float32"],
        cpu=dict(B=[1], H=[32], G=[8], S=[1024], D=[128], dtype=["float32"]),
    ),
)
def rope(q, k, cos, sin, *, interleaved=False):
    """Each pair (a, b) becomes (a·cos − b·sin, b·cos + a·sin)."""

    def per_column(a, b):
        return torch.stack((a, b), dim=-1).flatten(-2) if interleaved else torch.cat((a, b), dim=-1)

    def turned(x):
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
        return x * per_column(cos, cos) + per_column(-b, a) * per_column(sin, sin)

    return turned(q), turned(k)


@rope.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(interleaved=False):
    from kernellab.ops.rope.triton import rotate_triton

    return rotation_passes(rotate_triton, interleaved=interleaved)


@rope.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(interleaved=False):
    from kernellab.ops.rope.cuda import rotate_cuda

    return rotation_passes(rotate_cuda, interleaved=interleaved)


@rope.impl("cpp")
@differentiable(CONTRACT)
def _(interleaved=False):
    from kernellab.ops.rope.cpp import rotate_cpp

    return rotation_passes(rotate_cpp, interleaved=interleaved)
