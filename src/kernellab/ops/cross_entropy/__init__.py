"""Cross-entropy of logits with target indices: the logits, often the largest tensor of a model, are read once."""

import torch

import kernellab as kl
from kernellab.ops.cross_entropy.loss import CONTRACT, Settings, loss_passes
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable


def _kept_bytes(logits, target, ignore_index):
    """Bytes of the rows whose target is not ignored: the others need not be read."""
    kept = len(target) if target.is_meta else int((target != ignore_index).sum())
    return kept * logits.shape[1] * logits.element_size()


def _cost(logits, target, *, reduction="mean", ignore_index=-100, **_):
    results = len(target) if reduction == "none" else 1
    return kl.Cost(read=[_kept_bytes(logits, target, ignore_index), target], write=[results * logits.element_size()])


def _grad_cost(logits, target, *, ignore_index=-100, **_):
    return kl.Cost(read=[_kept_bytes(logits, target, ignore_index), target], write=[logits])


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V", sentinel="ignore_index")),
    options=dict(reduction=["mean", "sum", "none"], label_smoothing=[0.0, 0.1], ignore_index=[-100, 1]),
    reduces="V",
    where=lambda case: case.V > 0,
    cost=_cost,
    grad_cost=_grad_cost,
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        M=[4096],
        V=[32000, 50257, 131072],
        dtype=["bfloat16", "float32"],
        cpu=dict(M=[1024], V=[16384], dtype=["float32"]),
    ),
)
def cross_entropy(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    """−log softmax(logits)[target] of every row, as torch.nn.functional.cross_entropy has it.

    A target outside [0, V) that is not ignored is undefined here. PyTorch raises an error or stops the GPU; the kernels
    in Triton, CUDA and C++ give that row a loss and a gradient of NaN, and access nothing outside the logits.
    """
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


@cross_entropy.impl("torch")
def _(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    return torch.nn.functional.cross_entropy(
        logits, target, reduction=reduction, label_smoothing=label_smoothing, ignore_index=ignore_index
    )


@cross_entropy.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(reduction="mean", label_smoothing=0.0, ignore_index=-100):
    from kernellab.ops.cross_entropy.triton import backward, forward

    return loss_passes(forward, backward, Settings(reduction, label_smoothing, ignore_index))


@cross_entropy.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(reduction="mean", label_smoothing=0.0, ignore_index=-100):
    from kernellab.ops.cross_entropy.cuda import backward, forward

    return loss_passes(forward, backward, Settings(reduction, label_smoothing, ignore_index))


@cross_entropy.impl("cpp")
@differentiable(CONTRACT)
def _(reduction="mean", label_smoothing=0.0, ignore_index=-100):
    from kernellab.ops.cross_entropy.cpp import backward, forward

    return loss_passes(forward, backward, Settings(reduction, label_smoothing, ignore_index))
