"""Describes a tensor as a kernel sees it: type, shape and alignment of its pointer."""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensor


def tensor_bytes(value: object) -> int | None:
    """The size of a tensor, or of the tensor of a TMA descriptor; None for anything else."""
    tensor = getattr(value, "base", None) if hasattr(value, "block_shape") else value
    return tensor.numel() * tensor.element_size() if isinstance(tensor, torch.Tensor) else None


def describe_pointer(tensor: torch.Tensor) -> str:
    """`pointer to float32, 4096×1024, aligned to 16`."""
    # The address of a meta tensor is its offset. A fake tensor has no address and is assumed to be aligned.
    address = 0 if isinstance(tensor, FakeTensor) else tensor.data_ptr()
    alignment = next(n for n in (16, 8, 4, 2, 1) if address % n == 0)
    shape = "×".join(map(str, tensor.shape)) or "one element"
    return f"pointer to {str(tensor.dtype).removeprefix('torch.')}, {shape}, aligned to {alignment}"
