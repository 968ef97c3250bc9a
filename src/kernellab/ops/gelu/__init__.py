"""GeLU: x·Φ(x), exactly through erf or through the tanh approximation."""

import math

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable, elementwise_contract, map_passes

CONTRACT = elementwise_contract("x")


@kl.op(
    args=dict(x=kl.tensor("... N")),
    options={"approximate": ["tanh", "none"]},
    cost=lambda x, **_: kl.Cost(read=[x], write=[x]),
    grad_cost=lambda x, **_: kl.Cost(read=[x, x], write=[x]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 16384)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def gelu(x, *, approximate="tanh"):
    """0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), or 0.5·x·(1 + erf(x/√2)) with approximate="none"."""
    if approximate == "tanh":
        # The textbook chain: nine kernels, each reading and writing the whole tensor.
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


@gelu.impl("torch")
def _(x, *, approximate="tanh"):
    return torch.nn.functional.gelu(x, approximate=approximate)


@gelu.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.elementwise_triton import map_triton
    from kernellab.ops.gelu.triton import FORMS

    return map_passes(map_triton, "gelu", *FORMS[approximate])


@gelu.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.elementwise_cuda import map_cuda

    form = {"tanh": "GeluTanh", "none": "GeluErf"}[approximate]
    return map_passes(map_cuda, "gelu", f"Activation<{form}>", f"ActivationBackward<{form}>")


@gelu.impl("cpp")
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.maps_cpp import map_cpp

    function = {"tanh": "gelu_tanh", "none": "gelu_erf"}[approximate]
    return map_passes(map_cpp, "gelu", function, f"{function}_backward")
