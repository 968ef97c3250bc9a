"""Describes a tensor as a kernel sees it: type, shape and alignment of its pointer, and blocks that it is copied in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._subclasses import FakeTensor


def tensor_bytes(values: Sequence[object]) -> list[int | None]:
    """The size of each tensor, or of the tensor of a TMA descriptor; None for anything else. A tensor that occurs again
    moves no more bytes: 0."""
    sizes: list[int | None] = []
    known: list[torch.Tensor] = []
    for value in values:
        tensor = getattr(value, "base", None) if hasattr(value, "block_shape") else value
        if not isinstance(tensor, torch.Tensor):
            sizes.append(None)
        elif any(tensor is earlier for earlier in known):
            sizes.append(0)
        else:
            sizes.append(tensor.numel() * tensor.element_size())
            known.append(tensor)
    return sizes


def describe_pointer(tensor: torch.Tensor) -> str:
    """`pointer to float32, 4096×1024, aligned to 16`."""
    # The address of a meta tensor is its offset. A fake tensor has no address and is assumed to be aligned.
    address = 0 if isinstance(tensor, FakeTensor) else tensor.data_ptr()
    alignment = next(n for n in (16, 8, 4, 2, 1) if address % n == 0)
    shape = "×".join(map(str, tensor.shape)) or "one element"
    return f"pointer to {str(tensor.dtype).removeprefix('torch.')}, {shape}, aligned to {alignment}"


def describe_descriptor(base: torch.Tensor, block_shape: Sequence[int]) -> str:
    """The same of a tensor that the copy engine reads or writes block by block."""
    return f"descriptor of a {describe_pointer(base)}, in blocks of {'×'.join(map(str, block_shape))}"
