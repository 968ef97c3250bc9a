"""A kernel's values as text: blocks as numbers, pointers as positions in the tensors they point into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from kernellab.trials.guard_bands import span

# Types that numpy does not have; the interpreter stores their bits.
_STORED_AS_BITS = {"bf16": torch.bfloat16, "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn}
FEW, ALL = 64, 1 << 62  # elements: a larger block is shown by its edges
_EDGE, _WIDTH = 4, 110

# Any numbers: numpy declares its scalar types with Any.
Array: TypeAlias = npt.NDArray[np.generic]  # type: ignore[explicit-any]


class ElementType(Protocol):
    primitive_bitwidth: int


class Dtype(Protocol):
    element_ty: ElementType  # of a pointer

    def is_ptr(self) -> bool: ...


class Type(Protocol):
    def is_block(self) -> bool: ...


@runtime_checkable
class Handle(Protocol):
    """The interpreter's memory of a value."""

    data: Array
    dtype: Dtype


@runtime_checkable
class Value(Protocol):
    """A block or a scalar of the interpreter; `handle` may also be that of a block pointer."""

    handle: object
    dtype: Dtype
    type: Type


@runtime_checkable
class BlockPointer(Protocol):
    """The handle of a block pointer or of a tensor descriptor."""

    block_shape: Iterable[int]
    base: Handle


@runtime_checkable
class HostDescriptor(Protocol):
    """A tensor descriptor as the launcher makes it."""

    block_shape: Iterable[int]
    base: torch.Tensor


def format_value(value: object, tensors: Mapping[str, torch.Tensor], max_elements: int = FEW) -> str:
    """`fp32[16] [0.1 …]` for a block, `int32 3` for a scalar, `x_ptr + [0 1 …]` for pointers; others by repr.

    `tensors` are the kernel's tensors by the names of its parameters. A block of more than `max_elements` is shown by
    its edges.
    """
    handle: object = getattr(value, "handle", None)
    if isinstance(value, Value) and isinstance(handle, Handle) and isinstance(handle.data, np.ndarray):
        dims = f"[{', '.join(map(str, handle.data.shape))}]" if value.type.is_block() else ""
        if value.dtype.is_ptr():
            return _format_pointers(handle, dims, tensors, max_elements)
        numbers = _as_numbers(handle.data, str(value.dtype))
        return f"{value.dtype}{dims}{_format_numbers(numbers, dims, max_elements)}"
    if isinstance(handle, BlockPointer):
        offsets = getattr(handle, "offsets", None)
        at = f" at {[int(offset.data.item()) for offset in offsets]}" if offsets is not None else ""
        return f"block {list(handle.block_shape)}{at} of {_format_pointers(handle.base, '', tensors, max_elements)}"
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, HostDescriptor) and isinstance(value.base, torch.Tensor):
        return f"descriptor of {describe_tensor(value.base)}, block {list(value.block_shape)}"
    if type(value).__name__ == "constexpr":
        return format_value(getattr(value, "value", None), tensors, max_elements)
    if type(value).__name__ == "tuple" and isinstance(value, Iterable):  # Python's or Triton's
        return f"({', '.join(format_value(item, tensors, max_elements) for item in value)})"
    return str(getattr(value, "__name__", None) or repr(value))


def describe_tensor(tensor: torch.Tensor) -> str:
    """`float32 8×8`, with the strides of a tensor that is not contiguous."""
    text = f"{str(tensor.dtype).removeprefix('torch.')} {'×'.join(map(str, tensor.shape)) or 'scalar'}"
    return text if tensor.is_contiguous() else f"{text} strides {tuple(tensor.stride())}"


def _as_numbers(data: Array, dtype: str) -> Array:
    if dtype not in _STORED_AS_BITS:
        return data
    signed = np.ascontiguousarray(data).view(f"i{data.itemsize}")
    numbers: npt.NDArray[np.float32] = torch.from_numpy(signed).view(_STORED_AS_BITS[dtype]).float().numpy()
    return numbers


def _format_numbers(data: Array, dims: str, max_elements: int) -> str:
    if not dims and data.size == 1:  # the interpreter stores a scalar as a block of one
        scalar = data.reshape(()).item()
        return f" {scalar:.6g}" if isinstance(scalar, float) else f" {scalar}"
    text = np.array2string(data, threshold=max_elements, edgeitems=_EDGE, precision=5, max_line_width=_WIDTH)
    return f"\n{text}" if "\n" in text else f" {text}"


def _format_pointers(handle: Handle, dims: str, tensors: Mapping[str, torch.Tensor], max_elements: int) -> str:
    """Relative to the tensor that most of the pointers point into."""
    dtype, addresses = handle.dtype, handle.data.astype(np.int64)
    item_bytes = max(1, dtype.element_ty.primitive_bitwidth // 8)
    best, inside, offsets = "", 0, addresses
    for name, tensor in tensors.items():
        positions = (addresses - tensor.data_ptr()) // item_bytes
        count = int(((positions >= 0) & (positions < span(tensor.shape, tensor.stride()))).sum())
        if count > inside:
            best, inside, offsets = name, count, positions
    if not inside:
        return f"{dtype}{dims} outside every tensor the kernel was given"
    text = f"{dtype}{dims} {best} +{_format_numbers(offsets, dims, max_elements)}"
    outside = addresses.size - inside
    return f"{text}, {outside} of {addresses.size} outside {best}" if outside else text
