"""SwiGLU: SiLU of a gate, times another tensor, as in the MLPs of Llama and its relatives."""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable, elementwise_contract, map_passes

CONTRACT = elementwise_contract("gate", "up")


@kl.op(
    args=dict(gate=kl.tensor("... N"), up=kl.tensor("... N")),
    cost=lambda gate, up: kl.Cost(read=[gate, up], write=[gate]),
    grad_cost=lambda gate, up: kl.Cost(read=[gate, gate, up], write=[gate, up]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 16384)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def swiglu(gate, up):
    """gate / (1 + exp(−gate)) · up."""
    return gate / (1 + torch.exp(-gate)) * up


@swiglu.impl("torch")
def _(gate, up):
    return torch.nn.functional.silu(gate) * up


@swiglu.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _():
    from kernellab.ops.elementwise_triton import map_triton
    from kernellab.ops.swiglu.triton import swiglu_backward, swiglu_value

    return map_passes(map_triton, "swiglu", swiglu_value, swiglu_backward)


@swiglu.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _():
    from kernellab.ops.elementwise_cuda import map_cuda

    return map_passes(map_cuda, "swiglu", "Gated<Silu>", "GatedBackward<Silu>")


@swiglu.impl("cpp")
@differentiable(CONTRACT)
def _():
    from kernellab.ops.maps_cpp import map_cpp

    return map_passes(map_cpp, "swiglu", "swiglu", "swiglu_backward")
