"""What the studies of several ops share: what they support, and how their kernels are launched.

A study is an implementation for comparison. An op's `studies.py` declares its studies and launches those in CUDA C++,
`studies.cu` has their kernels, `studies_triton.py` those in Triton.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import torch

from kernellab.build import cuda
from kernellab.build.cuda import Kernel
from kernellab.declaration.case import Case
from kernellab.ops.floats import CUDA_NAMES, has_gpu_kernel, require_float, vector_width

MOST_BLOCKS = (1 << 31) - 1  # of a grid
BLOCK = 256  # threads, where the row does not decide


def is_contiguous(case: Case) -> bool | str:
    """`supports=` of studies: they have no strides."""
    return has_gpu_kernel(case) if case.contiguous else "takes contiguous tensors only"


def has_few_rows(case: Case, blocks_per_row: int = 1) -> bool | str:
    """`supports=` of studies whose blocks take a row, or a part of one."""
    most = MOST_BLOCKS // blocks_per_row
    if math.prod(case.shape[:-1]) > most:
        return f"takes at most {most} rows: a grid has no more blocks"
    return is_contiguous(case)


def wider_than(case: Case, most: int, reason: str) -> str | None:
    """The refusal of studies that hold a row of at most so many columns; None for a row that fits."""
    return f"takes at most {most} columns: {reason}" if case.shape[-1] > most else None


def current_gpu() -> torch.device:
    """The device on which kernels are launched; the CPU where there is no GPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def access_width(wide: bool, *tensors: torch.Tensor | None) -> int:
    """Elements per access: if `wide`, of 16 bytes where the tensors and their rows are aligned to it."""
    given = [t for t in tensors if t is not None]
    return vector_width(given, given[0].shape[-1]) if wide else 1


def kernel(op: str, name: str, x: torch.Tensor, *arguments: object) -> Kernel:
    """A kernel of the op's studies.cu: a template whose arguments are the type of x, then the given ones."""
    require_float(x, op)
    values = [str(a).lower() if isinstance(a, bool) else str(a) for a in (CUDA_NAMES[x.dtype], *arguments)]
    return _kernel(op, f"{name}<{', '.join(values)}>")


@functools.cache
def _kernel(op: str, name: str) -> Kernel:
    return cuda.kernel(Path(__file__).parent / op / "studies.cu", name)
