"""The logarithm of softmax over the last dim, of any width."""

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
def log_softmax(x):
    """x − max − log Σ exp(x − max) along the last dim."""
    if x.shape[-1] == 0:
        return x  # an empty row has no maximum
    # A constant subtracted from a row changes neither the result nor the gradient.
    below = x - x.detach().amax(dim=-1, keepdim=True)
    return below - torch.exp(below).sum(dim=-1, keepdim=True).log()


@log_softmax.impl("torch")
def _(x):
    return torch.log_softmax(x, dim=-1)


@log_softmax.impl("triton", supports=has_gpu_kernel)
@differentiable(ROWS)
def _():
    from kernellab.ops.log_softmax.triton import BACKWARD, LOG_SOFTMAX
    from kernellab.ops.rows_triton import map_rows_triton

    return row_passes(map_rows_triton, "log_softmax", LOG_SOFTMAX, BACKWARD)


@log_softmax.impl("cuda", supports=has_gpu_kernel)
@differentiable(ROWS)
def _():
    from kernellab.ops.rows_cuda import map_rows_cuda

    return row_passes(map_rows_cuda, "log_softmax", "LogSoftmax", "LogSoftmaxGradient")


@log_softmax.impl("cpp")
@differentiable(ROWS)
def _():
    from kernellab.ops.maps_cpp import map_rows_cpp

    return row_passes(map_rows_cpp, "log_softmax", "log_softmax", "log_softmax_backward")
