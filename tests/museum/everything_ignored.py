"""A mean over no rows at all is 0 here and NaN in PyTorch: `count.clamp(min=1)` hides that nothing was trained on.

A batch whose targets are all padding has no loss. PyTorch says so with NaN; the fused version divides by at least
one and reports a perfect score, which is averaged into the epoch. One real target is enough to make both agree.
"""

import torch

import kernellab as kl

CAUGHT_BY = "indices"
SOURCE = None
NEEDS_GPU = False


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V", sentinel=-100)),
    where=lambda case: case.M > 0 and case.V > 0,
    reduces="V",
    cases=kl.cases(M=[64], V=[256], dtype=["float32"]),
)
def cross_entropy(logits, target):
    """The mean of −log softmax at the target, over rows whose target is not −100."""
    log_p = torch.log_softmax(logits, dim=-1)
    counted = target != -100
    loss = -log_p.gather(-1, torch.where(counted, target, 0)[:, None])[:, 0]
    return torch.where(counted, loss, 0).sum() / counted.sum()


@cross_entropy.impl("torch")
def _(logits, target):
    return torch.nn.functional.cross_entropy(logits, target)


def loss_and_count(logits, target):
    log_p = torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    counted = target != -100
    loss = -log_p.gather(-1, target.clamp(min=0)[:, None])[:, 0]
    return torch.where(counted, loss, 0).sum(), counted.sum()


@cross_entropy.impl("python-right")
def _(logits, target):
    loss, count = loss_and_count(logits, target)
    return (loss / count).to(logits.dtype)


@cross_entropy.impl("python-wrong")
def _(logits, target):
    loss, count = loss_and_count(logits, target)
    return (loss / count.clamp(min=1)).to(logits.dtype)
