"""GeLU of a linear layer, x·Wᵀ + bias, as in the MLP of a transformer: the values between the two are not read back."""

import math

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.layout import row_count
from kernellab.ops.linear import as_matrix
from kernellab.ops.linear_gelu.passes import CONTRACT, linear_passes


def _elements(x, weight):
    """Of the result."""
    return row_count(x) * weight.shape[0]


def _cost(x, weight, bias=None, **_):
    return kl.Cost(
        read=[x, weight, bias],
        write=[_elements(x, weight) * x.element_size()],
        flops={"matmul": 2 * _elements(x, weight) * x.shape[-1]},
    )


def _grad_cost(x, weight, bias=None, **_):
    # The upstream gradient and the values that GeLU was applied to are read; two products.
    return kl.Cost(
        read=[2 * _elements(x, weight) * x.element_size(), x, weight],
        write=[x, weight, bias],
        flops={"matmul": 4 * _elements(x, weight) * x.shape[-1]},
    )


@kl.op(
    args=dict(x=kl.tensor("... K"), weight=kl.tensor("N K", values=kl.weights), bias=kl.optional(kl.tensor("N"))),
    options={"approximate": ["tanh", "none"]},
    reduces="K",
    cost=_cost,
    grad_cost=_grad_cost,
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 1024, 4096), (8192, 4096, 16384)],
        dtype=["bfloat16", "float32"],
        cpu=dict(shape=[(512, 768, 3072)], dtype=["float32"]),
    ),
)
def linear_gelu(x, weight, bias=None, *, approximate="tanh"):
    """gelu(x·Wᵀ + bias), with the forms of GeLU that `approximate` names in PyTorch.

    Weights are scaled so that GeLU is applied to N(0, 1): of a large value, any such function is the value or 0. There
    is no implementation in CUDA C++: it would need a matmul as fast as cuBLAS's before fusing gains anything.
    """
    z = x @ weight.t()
    if bias is not None:
        z = z + bias
    if approximate == "tanh":
        return 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * (z * z * z))))
    return 0.5 * z * (1 + torch.erf(z * math.sqrt(0.5)))


@linear_gelu.impl("torch")
def _(x, weight, bias=None, *, approximate="tanh"):
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias), approximate=approximate)


def _has_epilogue(case):
    if case.device == "cpu":
        return "on a CPU it is no epilogue: PyTorch computes the exact form of GeLU after the matmul"
    if not case.bias:
        return "needs a bias"
    return case.approximate == "tanh" or "cuBLASLt computes the tanh form alone"


@linear_gelu.impl("torch-epilogue", supports=_has_epilogue)
def _(x, weight, bias=None, *, approximate="tanh"):
    """One kernel of cuBLASLt, in which GeLU follows the products."""
    with torch.no_grad():  # PyTorch has no derivative of it
        y = torch._addmm_activation(bias, as_matrix(x), weight.t(), use_gelu=True)
    return y.view(*x.shape[:-1], weight.shape[0])


@linear_gelu.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.linear_gelu.triton import forward, slope

    return linear_passes(forward, slope, approximate)


@linear_gelu.impl("cpp")
@differentiable(CONTRACT)
def _(approximate="tanh"):
    from kernellab.ops.linear_gelu.cpp import forward, slope

    return linear_passes(forward, slope, approximate)
