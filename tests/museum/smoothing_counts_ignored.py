"""Label smoothing adds its share for rows that are to be ignored.

Ignored targets are left out of the main term, and the smoothing term is a mean over all logits, added later by
someone else. Either option alone is right; together the padding is trained on.
"""

import torch

import kernellab as kl

CAUGHT_BY = "options"
SOURCE = "https://github.com/pytorch/pytorch/issues/73205"
NEEDS_GPU = False


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V", sentinel=-100)),
    options=dict(smoothing=[0.0, 0.1], reduction=["sum", "none"]),
    where=lambda case: case.V > 0,
    reduces="V",
    cases=kl.cases(M=[64], V=[256], dtype=["float32"]),
)
def cross_entropy(logits, target, *, smoothing=0.0, reduction="sum"):
    """−log softmax at the target, smoothed; rows with target −100 count nothing."""
    log_p = torch.log_softmax(logits, dim=-1)
    counted = target != -100
    loss = -log_p.gather(-1, torch.where(counted, target, 0)[:, None])[:, 0]
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * log_p.mean(dim=-1)
    loss = torch.where(counted, loss, 0)
    return loss.sum() if reduction == "sum" else loss


@cross_entropy.impl("torch")
def _(logits, target, *, smoothing=0.0, reduction="sum"):
    return torch.nn.functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction=reduction)


def fused(logits, target, smoothing, reduction, mask_both):
    log_p = torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    counted = target != -100
    loss = torch.where(counted, -log_p.gather(-1, target.clamp(min=0)[:, None])[:, 0], 0)
    if smoothing:
        spread = -log_p.mean(dim=-1)
        if mask_both:
            spread = torch.where(counted, spread, 0)
        loss = (1 - smoothing) * loss + smoothing * spread
    return (loss.sum() if reduction == "sum" else loss).to(logits.dtype)


@cross_entropy.impl("python-right")
def _(logits, target, *, smoothing=0.0, reduction="sum"):
    return fused(logits, target, smoothing, reduction, mask_both=True)


@cross_entropy.impl("python-wrong")
def _(logits, target, *, smoothing=0.0, reduction="sum"):
    return fused(logits, target, smoothing, reduction, mask_both=False)
