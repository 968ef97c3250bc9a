"""Two ops that the API must be able to declare: cross_entropy and attention."""

import math

import torch
import torch.nn.functional as F

import kernellab as kl


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V", sentinel="ignore_index")),
    options=dict(reduction=["mean", "sum", "none"], label_smoothing=[0.0, 0.1], ignore_index=[-100]),
    reduces="V",
    cases=kl.cases(M=[4096], V=[32000, 131072], dtype=["bfloat16"], cpu=dict(M=[64], V=[512], dtype=["float32"])),
)
def cross_entropy(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    log_p = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    counted = target != ignore_index
    picked = log_p.gather(-1, torch.where(counted, target, 0)[:, None])[:, 0]
    loss = -(1 - label_smoothing) * picked - label_smoothing * log_p.mean(dim=-1)
    loss = torch.where(counted, loss, 0)
    if reduction == "none":
        return loss
    return loss.sum() / counted.sum() if reduction == "mean" else loss.sum()


@cross_entropy.impl("torch")
def _(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    return F.cross_entropy(
        logits, target, reduction=reduction, label_smoothing=label_smoothing, ignore_index=ignore_index
    )


@kl.op(
    args=dict(
        q=kl.tensor("B H Sq D"),
        k=kl.tensor("B Hk Sk D"),
        v=kl.tensor("B Hk Sk D"),
        bias=kl.optional(kl.tensor("B H Sq Sk")),
    ),
    dims=dict(Hk="H", Sk="Sq"),
    where=lambda c: c.H % c.Hk == 0,
    options=dict(causal=[None, "bottom_right", "top_left"], scale=[None], window=[None, 8]),
    reduces="Sk",
    cases=kl.cases(shape=[(2, 16, 2048, 64)], dtype=["bfloat16"], cpu=dict(shape=[(1, 2, 16, 8)], dtype=["float32"])),
)
def attention(q, k, v, bias=None, *, causal=None, scale=None, window=None):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if bias is not None:
        scores = scores + bias
    rows, cols = (torch.arange(n, device=q.device) for n in scores.shape[-2:])
    offset = scores.shape[-1] - scores.shape[-2] if causal == "bottom_right" else 0
    distance = rows[:, None] + offset - cols[None, :]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if causal is not None:
        hidden = hidden | (distance < 0)
    if window is not None:
        hidden = hidden | (distance.abs() >= window)
    p = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    return torch.nan_to_num(p) @ v


@attention.impl("torch", supports=lambda c: c.window is None or "no window")
def _(q, k, v, bias=None, *, causal=None, scale=None, window=None):
    mask = bias
    if causal is not None:
        rows, cols = q.shape[-2], k.shape[-2]
        offset = cols - rows if causal == "bottom_right" else 0
        seen = torch.ones(rows, cols, dtype=torch.bool, device=q.device).tril(offset)
        mask = (torch.zeros_like(seen, dtype=q.dtype) if bias is None else bias).masked_fill(~seen, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
