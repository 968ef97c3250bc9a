"""The floating-point dtypes that the shipped kernels read and write. Arithmetic is fp32 (in C++, fp64 for fp64)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernellab.declaration.case import Case

# The name of each torch dtype in CUDA C++.
CUDA_NAMES = {torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
# The name of each torch dtype in dtypes.hpp.
CPP_NAMES = {torch.float32: "float", torch.float64: "double", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def require_float(x: torch.Tensor, op: str, type_names: dict[torch.dtype, str] = CUDA_NAMES) -> None:
    """Raise TypeError for a dtype without a kernel."""
    if x.dtype not in type_names:
        choices = ", ".join(str(dtype).removeprefix("torch.") for dtype in type_names)
        raise TypeError(f"{op} has no kernel for {x.dtype}: convert the tensor to one of {choices}")


def has_gpu_kernel(case: Case) -> bool | str:
    """`supports=` of the GPU implementations."""
    return case.dtype != "float64" or "has no float64 kernel"


def vector_width(tensors: Sequence[torch.Tensor], *elements: int) -> int:
    """Elements per 16-byte access if all tensors and every given count or stride are aligned to it, else 1.

    >>> x = torch.empty(64)
    >>> vector_width([x, x], 8, 20), vector_width([x, x], 8, 21), vector_width([x[1:], x], 8)
    (4, 1, 1)
    """
    width = 16 // tensors[0].element_size()
    if any(t.data_ptr() % 16 for t in tensors) or any(count % width for count in elements):
        return 1
    return width
