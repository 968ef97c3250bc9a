"""RMS norm over the last dim, of any width: each row is scaled to a mean square of 1, as in Llama and its relatives."""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.norms import RMS_NORM_CONTRACT, norm_passes


@kl.op(
    args=dict(x=kl.tensor("... N"), weight=kl.optional(kl.tensor("N"))),
    options={"eps": [1e-6]},
    reduces="N",
    cost=lambda x, weight, **_: kl.Cost(read=[x, weight], write=[x]),
    grad_cost=lambda x, weight, **_: kl.Cost(read=[x, x, weight], write=[x, weight]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 1024), (16384, 4096), (8192, 16384), (4096, 65536), (4096, 131072)],
        dtype=["bfloat16", "float32"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def rms_norm(x, weight=None, *, eps=1e-6):
    """x / √(mean of x² + eps) · weight along the last dim."""
    y = x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + eps)
    return y if weight is None else y * weight


@rms_norm.impl("torch")
def _(x, weight=None, *, eps=1e-6):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@rms_norm.impl("triton", supports=has_gpu_kernel)
@differentiable(RMS_NORM_CONTRACT)
def _(eps=1e-6):
    from kernellab.ops.rms_norm.triton import RMS_NORM

    return norm_passes(RMS_NORM, eps, keep_order=True)


@rms_norm.impl("cuda", supports=has_gpu_kernel)
@differentiable(RMS_NORM_CONTRACT)
def _(eps=1e-6):
    from kernellab.ops.norms_cuda import CudaNorm

    return norm_passes(CudaNorm("rms_norm", "RmsNorm", centred=False), eps, keep_order=True)


@rms_norm.impl("cpp")
@differentiable(RMS_NORM_CONTRACT)
def _(eps=1e-6):
    from kernellab.ops.norms_cpp import CppNorm

    return norm_passes(CppNorm("rms_norm", centred=False), eps, keep_order=True)
