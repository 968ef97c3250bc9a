"""Cross-entropy of a linear layer for the CPU: PyTorch's matmul computes chunks of logits, cpp.cpp the rest."""

from __future__ import annotations

import torch

from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.linear_cross_entropy.passes import chunked, dtype_of_sums
from kernellab.ops.maps_cpp import entry


class CppKernels:
    """See passes.Kernels."""

    def losses(self, x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, settings: Settings) -> torch.Tensor:
        losses = x.new_empty(len(target), dtype=dtype_of_sums(x))
        chunked(self, x, weight, target, None, settings, (False, False), losses)
        return losses

    def convert(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        scales: torch.Tensor | None,
        losses: torch.Tensor | None,
        settings: Settings,
    ) -> None:
        require_float(logits, "linear_cross_entropy", CPP_NAMES)
        scale_step = scales.stride(0) if scales is not None and scales.dim() else 0
        entry("linear_cross_entropy", "linear_cross_entropy_convert", logits.dtype)(
            *(logits, logits.stride(0), target, target.stride(0)),
            *(0 if scales is None else scales, scale_step, 0 if losses is None else losses),
            *(settings.ignore_index, float(settings.label_smoothing), *logits.shape, torch.get_num_threads()),
        )

    def multiply(self, gradient: torch.Tensor, factor: torch.Tensor) -> None:
        if factor.item() != 1:
            gradient.mul_(factor)
