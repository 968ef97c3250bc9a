"""Cross-entropy of a linear layer, x·Wᵀ, as at the end of a language model: its logits are never in memory together."""

import torch

import kernellab as kl
from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable
from kernellab.ops.linear_cross_entropy.passes import CONTRACT, linear_loss_passes


def _flops(x, weight):
    """Of one product."""
    return 2 * x.shape[0] * x.shape[1] * weight.shape[0]


def _cost(x, weight, target, *, reduction="mean", **_):
    results = len(target) if reduction == "none" else 1
    return kl.Cost(read=[x, weight, target], write=[results * x.element_size()], flops={"matmul": _flops(x, weight)})


def _grad_cost(x, weight, target, **_):
    """Of the gradients alone, from logits that are not computed again: no implementation can have fewer products."""
    return kl.Cost(read=[x, weight, target], write=[x, weight], flops={"matmul": 2 * _flops(x, weight)})


@kl.op(
    args=dict(
        x=kl.tensor("M K"),
        weight=kl.tensor("V K", values=kl.weights),
        target=kl.index("M", below="V", sentinel="ignore_index"),
    ),
    options=dict(reduction=["mean", "sum", "none"], label_smoothing=[0.0, 0.1], ignore_index=[-100, 1]),
    reduces="K V",
    where=lambda case: case.V > 0,
    cost=_cost,
    grad_cost=_grad_cost,
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(8192, 4096, 128256), (8192, 2048, 32000)],
        dtype=["bfloat16"],
        cpu=dict(shape=[(1024, 256, 8192)], dtype=["float32"]),
    ),
)
def linear_cross_entropy(x, weight, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    """−log softmax(x·Wᵀ)[target] of every row of x, as PyTorch's linear layer and cross_entropy have it together.

    A target outside [0, V) that is not ignored is undefined here, as in cross_entropy. There is no implementation in
    CUDA C++: the products are cuBLAS's, and the kernel between them waits for memory, in any language.
    """
    logits = x @ weight.t()
    # A constant subtracted from a row changes neither its loss nor the gradient.
    shifted = logits - logits.detach().amax(dim=-1, keepdim=True)
    log_p = shifted - torch.exp(shifted).sum(dim=-1, keepdim=True).log()
    ignored = target == ignore_index
    losses = -log_p.gather(-1, target.masked_fill(ignored, 0)[:, None])[:, 0]
    if label_smoothing > 0:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(dim=-1)
    losses = losses.masked_fill(ignored, 0)
    if reduction == "none":
        return losses
    return losses.sum() / (~ignored).sum() if reduction == "mean" else losses.sum()


@linear_cross_entropy.impl("torch")
def _(x, weight, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    return torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(x, weight),
        target,
        reduction=reduction,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
    )


@linear_cross_entropy.impl("triton", supports=has_gpu_kernel, grad_in_forward=True)
@differentiable(CONTRACT)
def _(reduction="mean", label_smoothing=0.0, ignore_index=-100):
    from kernellab.ops.linear_cross_entropy.triton import TritonKernels

    return linear_loss_passes(TritonKernels(), Settings(reduction, label_smoothing, ignore_index))


@linear_cross_entropy.impl("triton-recompute", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(reduction="mean", label_smoothing=0.0, ignore_index=-100):
    """No gradients in forward, and less memory until backward: a product more."""
    from kernellab.ops.linear_cross_entropy.triton import TritonKernels

    return linear_loss_passes(TritonKernels(), Settings(reduction, label_smoothing, ignore_index), ahead=False)


@linear_cross_entropy.impl("cpp", grad_in_forward=True)
@differentiable(CONTRACT)
def _(reduction="mean", label_smoothing=0.0, ignore_index=-100):
    from kernellab.ops.linear_cross_entropy.cpp import CppKernels

    return linear_loss_passes(CppKernels(), Settings(reduction, label_smoothing, ignore_index))
