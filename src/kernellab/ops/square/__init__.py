"""Square: x², the smallest kernel, and so the op with which to study launches."""

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
def square(x):
    """x·x, elementwise."""
    return x * x


@square.impl("torch")
def _(x):
    return torch.square(x)


@square.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _():
    from kernellab.ops.elementwise_triton import map_triton
    from kernellab.ops.square.triton import square_backward, square_of

    return map_passes(map_triton, "square", square_of, square_backward)


@square.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _():
    from kernellab.ops.elementwise_cuda import map_cuda

    return map_passes(map_cuda, "square", "Activation<Square>", "ActivationBackward<Square>")


@square.impl("cuda-inline", supports=lambda case: kl.cuda.nvcc_missing() or has_gpu_kernel(case))
def _(x):
    from kernellab.ops.square.cuda_inline import square_cuda_inline

    return square_cuda_inline(x)


@square.impl("cpp")
@differentiable(CONTRACT)
def _():
    from kernellab.ops.maps_cpp import map_cpp

    return map_passes(map_cpp, "square", "square", "square_backward")
