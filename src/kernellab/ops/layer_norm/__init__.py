"""Layer norm over the last dim, of any width: each row is centred and scaled to variance 1."""

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.norms import LAYER_NORM_CONTRACT, norm_passes


@kl.op(
    args=dict(x=kl.tensor("... N"), weight=kl.optional(kl.tensor("N")), bias=kl.optional(kl.tensor("N"))),
    options={"eps": [1e-5]},
    reduces="N",
    cost=lambda x, weight, bias, **_: kl.Cost(read=[x, weight, bias], write=[x]),
    grad_cost=lambda x, weight, bias, **_: kl.Cost(read=[x, x, weight], write=[x, weight, bias]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 1024), (16384, 4096), (8192, 16384), (4096, 65536), (4096, 131072)],
        dtype=["bfloat16", "float32"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def layer_norm(x, weight=None, bias=None, *, eps=1e-5):
    """(x − mean) / √(variance + eps) · weight + bias along the last dim."""
    centred = x.contiguous() - x.mean(dim=-1, keepdim=True)  # the result is contiguous, as PyTorch's is
    y = centred * torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


@layer_norm.impl("torch")
def _(x, weight=None, bias=None, *, eps=1e-5):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@layer_norm.impl("triton", supports=has_gpu_kernel)
@differentiable(LAYER_NORM_CONTRACT)
def _(eps=1e-5):
    from kernellab.ops.layer_norm.triton import LAYER_NORM

    return norm_passes(LAYER_NORM, eps)


@layer_norm.impl("cuda", supports=has_gpu_kernel)
@differentiable(LAYER_NORM_CONTRACT)
def _(eps=1e-5):
    from kernellab.ops.norms_cuda import CudaNorm

    return norm_passes(CudaNorm("layer_norm", "LayerNorm", centred=True), eps)


@layer_norm.impl("cpp")
@differentiable(LAYER_NORM_CONTRACT)
def _(eps=1e-5):
    from kernellab.ops.norms_cpp import CppNorm

    return norm_passes(CppNorm("layer_norm", centred=True), eps)
