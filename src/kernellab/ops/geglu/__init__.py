"""GeGLU: GeLU of a gate, times another tensor, as in the MLPs of Gemma and T5."""

import math

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable, elementwise_contract, map_passes

CONTRACT = elementwise_contract("gate", "up")


@kl.op(
    args=dict(gate=kl.tensor("... N"), up=kl.tensor("... N")),
    options={"approximate": ["tanh", "none"]},
    cost=lambda gate, up, **_: kl.Cost(read=[gate, up], write=[gate]),
    grad_cost=lambda gate, up, **_: kl.Cost(read=[gate, gate, up], write=[gate, up]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 16384)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def geglu(gate, up, *, approximate="tanh"):
    """gelu(gate)·up, with the forms of GeLU that `approximate` names in PyTorch."""
    if approximate == "tanh":
        return 0.5 * gate * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * (gate * gate * gate)))) * up
    return 0.5 * gate * (1 + torch.erf(gate * math.sqrt(0.5))) * up


@geglu.impl("torch")
def _(gate, up, *, approximate="tanh"):
    return torch.nn.functional.gelu(gate, approximate=approximate) * up


@geglu.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.elementwise_triton import map_triton
    from kernellab.ops.geglu.triton import FORMS

    return map_passes(map_triton, "geglu", *FORMS[approximate])


@geglu.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.elementwise_cuda import map_cuda

    form = {"tanh": "GeluTanh", "none": "GeluErf"}[approximate]
    return map_passes(map_cuda, "geglu", f"Gated<{form}>", f"GatedBackward<{form}>")


@geglu.impl("cpp")
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.maps_cpp import map_cpp

    function = {"tanh": "geglu_tanh", "none": "geglu_erf"}[approximate]
    return map_passes(map_cpp, "geglu", function, f"{function}_backward")
