"""RMS norm of a sum: the residual connection before a norm, which returns the sum too."""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.norms import ADD_RMS_NORM_CONTRACT, add_norm_passes


@kl.op(
    args=dict(x=kl.tensor("... N"), residual=kl.tensor("... N"), weight=kl.optional(kl.tensor("N"))),
    options={"eps": [1e-6]},
    reduces="N",
    cost=lambda x, residual, weight, **_: kl.Cost(read=[x, residual, weight], write=[x, x]),
    # The gradients of both results and the sum are read. x and the residual have the same gradient.
    grad_cost=lambda x, residual, weight, **_: kl.Cost(read=[x, x, x, weight], write=[x, weight]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 1024), (16384, 4096), (8192, 16384), (4096, 65536), (4096, 131072)],
        dtype=["bfloat16", "float32"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def add_rms_norm(x, residual, weight=None, *, eps=1e-6):
    """total = x + residual; total / √(mean of total² + eps) · weight along the last dim, and total."""
    total = x + residual
    y = total * torch.rsqrt((total * total).mean(dim=-1, keepdim=True) + eps)
    return (y if weight is None else y * weight), total


@add_rms_norm.impl("torch")
def _(x, residual, weight=None, *, eps=1e-6):
    total = (x + residual).contiguous()  # as the results of ops along the last dim are
    return torch.nn.functional.rms_norm(total, total.shape[-1:], weight, eps), total


@add_rms_norm.impl("triton", supports=has_gpu_kernel)
@differentiable(ADD_RMS_NORM_CONTRACT)
def _(eps=1e-6):
    from kernellab.ops.add_rms_norm.triton import ADD_RMS_NORM

    return add_norm_passes(ADD_RMS_NORM, eps)


@add_rms_norm.impl("cuda", supports=has_gpu_kernel)
@differentiable(ADD_RMS_NORM_CONTRACT)
def _(eps=1e-6):
    from kernellab.ops.norms_cuda import CudaNorm

    return add_norm_passes(CudaNorm("add_rms_norm", "RmsNorm", centred=False), eps)


@add_rms_norm.impl("cpp")
@differentiable(ADD_RMS_NORM_CONTRACT)
def _(eps=1e-6):
    from kernellab.ops.norms_cpp import CppNorm

    return add_norm_passes(CppNorm("add_rms_norm", centred=False, adds=True), eps)
