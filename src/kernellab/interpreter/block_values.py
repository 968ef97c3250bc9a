"""A kernel's values as a person reads them: blocks as numbers, pointers as places in the tensors they point into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

# Types numpy does not have, which the interpreter keeps as bits.
_BITS = {"bf16": torch.bfloat16, "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn}
FEW, ALL = 64, 1 << 62  # blocks of more elements than asked for are shown by their edges
_EDGE, _WIDTH = 4, 110


def shown(value: Any, tensors: Mapping[str, torch.Tensor], most: int = FEW) -> str:
    """`fp32[16] [0.1 …]` for a block, `int32 3` for a scalar, `x_ptr + [0 1 …]` for pointers; the rest by repr.

    `tensors` are the tensors the kernel was given, by the names of its parameters; `most` is how many elements to
    show before there are too many.
    """
    handle: Any = getattr(value, "handle", None)
    if isinstance(getattr(handle, "data", None), np.ndarray):
        dims = f"[{', '.join(map(str, handle.data.shape))}]" if value.type.is_block() else ""
        if value.dtype.is_ptr():
            return _pointers(handle, dims, tensors, most)
        return f"{value.dtype}{dims}{_numbers(_readable(handle.data, str(value.dtype)), dims, most)}"
    if hasattr(handle, "block_shape"):  # a block pointer or a tensor descriptor
        at = f" at {[int(o.data.item()) for o in handle.offsets]}" if hasattr(handle, "offsets") else ""
        return f"block {list(handle.block_shape)}{at} of {_pointers(handle.base, '', tensors, most)}"
    if isinstance(value, torch.Tensor):
        return described(value)
    if isinstance(getattr(value, "base", None), torch.Tensor):  # a descriptor as the launcher makes it
        return f"descriptor of {described(value.base)}, block {list(value.block_shape)}"
    if type(value).__name__ == "constexpr":
        return shown(value.value, tensors, most)
    if type(value).__name__ == "tuple":  # Python's or Triton's
        return f"({', '.join(shown(v, tensors, most) for v in value)})"
    return str(getattr(value, "__name__", None) or repr(value))


def described(tensor: torch.Tensor) -> str:
    """`float32 8×8`, and the strides where they are not what the shape says."""
    text = f"{str(tensor.dtype).removeprefix('torch.')} {'×'.join(map(str, tensor.shape)) or 'scalar'}"
    return text if tensor.is_contiguous() else f"{text} strides {tuple(tensor.stride())}"


def _readable(data: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    if dtype not in _BITS:
        return data
    signed = np.ascontiguousarray(data).view(f"i{data.itemsize}")
    found: np.ndarray[Any, Any] = torch.from_numpy(signed).view(_BITS[dtype]).float().numpy()
    return found


def _numbers(data: np.ndarray[Any, Any], dims: str, most: int) -> str:
    if not dims and data.size == 1:  # the interpreter keeps a scalar as a block of one
        scalar = data.reshape(()).item()
        return f" {scalar:.6g}" if isinstance(scalar, float) else f" {scalar}"
    text = np.array2string(data, threshold=most, edgeitems=_EDGE, precision=5, max_line_width=_WIDTH)
    return f"\n{text}" if "\n" in text else f" {text}"


def _pointers(handle: Any, dims: str, tensors: Mapping[str, torch.Tensor], most: int) -> str:
    dtype, at = handle.dtype, handle.data.astype(np.int64)
    size = max(1, dtype.element_ty.primitive_bitwidth // 8)
    best, inside, offsets = "", 0, at
    for name, tensor in tensors.items():
        places = (at - tensor.data_ptr()) // size
        count = int(((places >= 0) & (places < _extent(tensor))).sum())
        if count > inside:
            best, inside, offsets = name, count, places
    if not inside:
        return f"{dtype}{dims} outside every tensor the kernel was given"
    text = f"{dtype}{dims} {best} +{_numbers(offsets, dims, most)}"
    outside = at.size - inside
    return f"{text}, {outside} of {at.size} outside {best}" if outside else text


def _extent(tensor: torch.Tensor) -> int:
    """How many elements lie between a tensor's first and its last, both counted."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
