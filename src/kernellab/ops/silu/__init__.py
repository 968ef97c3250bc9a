"""SiLU: x·sigmoid(x), also called swish."""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable, elementwise_contract, map_passes

CONTRACT = elementwise_contract("x")


@kl.op(
    args=dict(x=kl.tensor("... N")),
    cost=lambda x: kl.Cost(read=[x], write=[x]),
    grad_cost=lambda x: kl.Cost(read=[x, x], write=[x]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 16384)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def silu(x):
    """x / (1 + exp(−x))."""
    return x / (1 + torch.exp(-x))


@silu.impl("torch")
def _(x):
    return torch.nn.functional.silu(x)


@silu.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _():
    from kernellab.ops.elementwise_triton import map_triton
    from kernellab.ops.silu.triton import silu_backward, silu_value

    return map_passes(map_triton, "silu", silu_value, silu_backward)


@silu.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _():
    from kernellab.ops.elementwise_cuda import map_cuda

    return map_passes(map_cuda, "silu", "Activation<Silu>", "ActivationBackward<Silu>")


@silu.impl("cpp")
@differentiable(CONTRACT)
def _():
    from kernellab.ops.maps_cpp import map_cpp

    return map_passes(map_cpp, "silu", "silu", "silu_backward")
