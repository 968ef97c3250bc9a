"""A tensor as a kernel sees it: where its pointer points, and how well it is aligned."""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensor


def size_bytes(value: object) -> int | None:
    """Of a tensor, or of the one a TMA descriptor describes; None for anything else."""
    tensor = getattr(value, "base", None) if hasattr(value, "block_shape") else value
    return tensor.numel() * tensor.element_size() if isinstance(tensor, torch.Tensor) else None


def pointer(tensor: torch.Tensor) -> str:
    """`pointer to float32, 4096×1024, aligned to 16`. A meta tensor's address is its offset."""
    address = (
        0 if isinstance(tensor, FakeTensor) else tensor.data_ptr()
    )  # a fake one has none, and is taken for aligned
    aligned = next(n for n in (16, 8, 4, 2, 1) if address % n == 0)
    sizes = "×".join(map(str, tensor.shape)) or "one element"
    return f"pointer to {str(tensor.dtype).removeprefix('torch.')}, {sizes}, aligned to {aligned}"
