"""Softmax over the last dim, of any width: its cost depends on how often a row is read."""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import ROWS, differentiable, row_passes


@kl.op(
    args=dict(x=kl.tensor("... N")),
    reduces="N",
    cost=lambda x: kl.Cost(read=[x], write=[x]),
    grad_cost=lambda x: kl.Cost(read=[x, x], write=[x]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(4096, 1024), (4096, 4096), (4096, 16384), (4096, 65536), (4096, 131072)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def softmax(x):
    """exp(x − max) / Σ exp(x − max) along the last dim."""
    if x.shape[-1] == 0:
        return x  # an empty row has no maximum
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


@softmax.impl("torch")
def _(x):
    return torch.softmax(x, dim=-1)


@softmax.impl("triton", supports=has_gpu_kernel)
@differentiable(ROWS)
def _():
    from kernellab.ops.rows_triton import map_rows_triton
    from kernellab.ops.softmax.triton import BACKWARD, SOFTMAX

    return row_passes(map_rows_triton, "softmax", SOFTMAX, BACKWARD)


@softmax.impl("cuda", supports=has_gpu_kernel)
@differentiable(ROWS)
def _():
    from kernellab.ops.rows_cuda import map_rows_cuda

    return row_passes(map_rows_cuda, "softmax", "Softmax", "SoftmaxGradient")


@softmax.impl("cpp")
@differentiable(ROWS)
def _():
    from kernellab.ops.maps_cpp import map_rows_cpp

    return row_passes(map_rows_cpp, "softmax", "softmax", "softmax_backward")
