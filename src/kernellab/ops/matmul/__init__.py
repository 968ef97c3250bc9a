"""Matmul: a·b for two matrices, each by rows or by columns. Its reference is PyTorch's own op: no plainer one is worth
timing. `studies.py` has the plain ones in CUDA C++ and Triton.
"""

import functools

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.matmul.matrices import CONTRACT, product_passes
from kernellab.ops.matmul.precision import (
    has_tf32,
    is_ieee,
    is_ieee_on_gpu,
    product_of_cut_operands,
    pytorchs_tf32_product,
)


def _cost(a, b, *, fp32_precision="ieee"):
    return _products([a, b], [a.shape[0] * b.shape[1] * a.element_size()], a, b, fp32_precision, count=1)


def _grad_cost(a, b, *, fp32_precision="ieee"):
    """Two products: dC·bᵀ and aᵀ·dC. dC is as large as the result."""
    return _products([a, b, a.shape[0] * b.shape[1] * a.element_size()], [a, b], a, b, fp32_precision, count=2)


def _products(read, write, a, b, precision, count):
    flops = 2 * count * a.shape[0] * a.shape[1] * b.shape[1]
    return kl.Cost(read=read, write=write, flops={"tf32" if precision == "tf32" else "matmul": flops})


@kl.op(
    args=dict(a=kl.tensor("M K"), b=kl.tensor("K N")),
    options=dict(fp32_precision=["ieee", "tf32"]),
    dims=dict(K="M", N="M"),
    where=lambda case: is_ieee(case) is True or case.dtype == "float32",
    reduces="K",
    cost=_cost,
    grad_cost=_grad_cost,
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(4096,), (8192,)],
        dtype=["bfloat16", "float32"],
        cpu=dict(shape=[(1024,)], dtype=["float32"]),
    ),
    manual=False,
)
def matmul(a, b, *, fp32_precision="ieee"):
    """Σₖ a[m, k]·b[k, n].

    `fp32_precision` is about float32 alone, as PyTorch's setting of that name. "ieee" multiplies float32 numbers.
    "tf32" may cut them to 10 bits of mantissa before, which tensor cores then multiply; sums are in float32.
    """
    if fp32_precision == "tf32" and a.dtype == torch.float32:
        return product_of_cut_operands(a, b)
    return a @ b


def product(a, b, *, fp32_precision="ieee"):
    return a @ b


# The mode "max-autotune" without CUDA graphs, which would overwrite a result in the next call. A graph from Inductor's
# cache would be compiled without trying anything, and the record would lack the candidates.
matmul.compile(
    product,
    supports=is_ieee,
    options={"max_autotune": True, "coordinate_descent_tuning": True, "fx_graph_cache": False},
)


@matmul.impl("torch", supports=has_tf32)
def _(a, b, *, fp32_precision="ieee"):
    return torch.matmul(a, b) if fp32_precision == "ieee" else tf32_of_pytorch(a, b)


@differentiable(CONTRACT)
def tf32_of_pytorch():
    return product_passes(pytorchs_tf32_product)


@matmul.impl("triton", supports=is_ieee_on_gpu)
@differentiable(CONTRACT)
def _(fp32_precision="ieee"):
    from kernellab.ops.matmul.triton import multiply

    return product_passes(multiply)


@matmul.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(fp32_precision="ieee"):
    from kernellab.ops.matmul.cuda import multiply

    return product_passes(functools.partial(multiply, tf32=fp32_precision == "tf32"))


@matmul.impl("cpp", supports=is_ieee)
@differentiable(CONTRACT)
def _(fp32_precision="ieee"):
    from kernellab.ops.matmul.cpp import multiply

    return product_passes(multiply)
