"""Cross-entropy for the CPU: calls the functions of cpp.cpp, and adds up the losses of the rows."""

from __future__ import annotations

import torch

from kernellab.ops.cross_entropy.loss import Settings, new_saved
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.maps_cpp import entry


def forward(logits: torch.Tensor, target: torch.Tensor, settings: Settings) -> tuple[torch.Tensor, torch.Tensor]:
    require_float(logits, "cross_entropy", CPP_NAMES)
    saved = new_saved(logits, settings.reduction)
    losses = saved.new_empty(len(target))
    labels = (target, target.stride(0))
    _call("cross_entropy", logits, *labels, losses, saved, settings=settings)
    if settings.reduction == "none":
        return losses.to(logits.dtype), saved
    count = (target != settings.ignore_index).sum(dtype=saved.dtype)
    saved[-1] = 1 / count
    total = losses.sum()
    if settings.reduction == "mean":
        total = total / count
    return total.to(logits.dtype), saved


def backward(
    upstream: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, saved: torch.Tensor, settings: Settings
) -> torch.Tensor:
    dx = torch.empty_like(logits, memory_format=torch.contiguous_format)
    scales = upstream.to(saved.dtype)
    if settings.reduction == "mean":
        scales = scales * saved[-1]
    labels = (target, target.stride(0))
    steps = settings.upstream_step(scales)
    _call("cross_entropy_backward", logits, *labels, saved, scales, steps, dx, settings=settings)
    return dx


def _call(function: str, logits: torch.Tensor, *args: torch.Tensor | int, settings: Settings) -> None:
    options = (settings.ignore_index, float(settings.label_smoothing))
    size = (*logits.shape, torch.get_num_threads())
    entry("cross_entropy", function, logits.dtype)(logits, *logits.stride(), *args, *options, *size)
