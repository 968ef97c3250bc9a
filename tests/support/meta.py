"""Meta tensors: sizes and strides without memory, on which launches are captured."""

from __future__ import annotations

import torch


def meta(*shape: int, requires_grad: bool = False) -> torch.Tensor:
    return torch.empty(*shape, device="meta", requires_grad=requires_grad)
