"""Meta tensors: sizes and strides without memory, as launches are captured on."""

from __future__ import annotations

import torch


def meta(*shape: int, requires_grad: bool = False) -> torch.Tensor:
    return torch.empty(*shape, device="meta", requires_grad=requires_grad)
