"""The floating-point types the shipped kernels read and write; arithmetic is fp32 (fp64 in C++ for fp64)."""

from __future__ import annotations

import torch

from kernellab.declaration.case import Case

# torch's type, and what CUDA C++ calls it
CUDA_NAMES = {torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
# torch's type, and what dtypes.hpp calls it
CPP_NAMES = {torch.float32: "float", torch.float64: "double", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def require_float(x: torch.Tensor, op: str, known_types: dict[torch.dtype, str] = CUDA_NAMES) -> None:
    """Raise TypeError for a dtype without a kernel."""
    if x.dtype not in known_types:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in known_types)
        raise TypeError(f"{op} has no kernel for {x.dtype}: convert the tensor to one of {known}")


def has_gpu_kernel(case: Case) -> bool | str:
    """`supports=` of the implementations for the GPU."""
    return case.dtype != "float64" or "has no float64 kernel"


def vector_width(x: torch.Tensor, y: torch.Tensor, *elements: int) -> int:
    """Elements per 16-byte access if both start on 16 bytes and every count or stride given keeps to it, else 1.

    >>> x = torch.empty(64)
    >>> vector_width(x, x, 8, 20), vector_width(x, x, 8, 21), vector_width(x[1:], x, 8)
    (4, 1, 1)
    """
    width = 16 // x.element_size()
    if (x.data_ptr() | y.data_ptr()) % 16 or any(count % width for count in elements):
        return 1
    return width
