"""Cross-entropy for the CPU: calls the functions of cpp.cpp, and adds up the losses of the rows."""

from __future__ import annotations

import torch

from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.maps_cpp import entry


def forward(logits: torch.Tensor, target: torch.Tensor, settings: Settings) -> tuple[torch.Tensor, torch.Tensor]:
    require_float(logits, "cross_entropy", CPP_NAMES)
    losses = logits.new_empty(len(target), dtype=_wide(logits))
    lse = losses.new_empty(len(target), 2)
    labels = (target, target.stride(0))
    _call("cross_entropy", logits, *labels, losses, lse, settings=settings)
    if settings.reduction == "none":
        return losses.to(logits.dtype), lse
    total = losses.sum()
    if settings.reduction == "mean":
        total = total / _count(target, settings)
    return total.to(logits.dtype), lse


def backward(
    upstream: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, saved: torch.Tensor, settings: Settings
) -> torch.Tensor:
    dx = torch.empty_like(logits, memory_format=torch.contiguous_format)
    scales = upstream.to(saved.dtype)
    if settings.reduction == "mean":
        scales = scales / _count(target, settings)
    labels = (target, target.stride(0))
    steps = settings.upstream_step(scales)
    _call("cross_entropy_backward", logits, *labels, saved, scales, steps, dx, settings=settings)
    return dx


def _wide(logits: torch.Tensor) -> torch.dtype:
    """The type of the arithmetic."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def _count(target: torch.Tensor, settings: Settings) -> torch.Tensor:
    return (target != settings.ignore_index).sum()


def _call(function: str, logits: torch.Tensor, *args: torch.Tensor | int, settings: Settings) -> None:
    options = (settings.ignore_index, float(settings.label_smoothing))
    size = (*logits.shape, torch.get_num_threads())
    entry("cross_entropy", function, logits.dtype)(logits, *logits.stride(), *args, *options, *size)
