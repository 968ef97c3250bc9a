"""Square for the CPU in C++: cpp.cpp holds the arithmetic, ../rows.hpp moves the data."""

import torch

import kernellab as kl
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.layout import elementwise

ENTRIES = {dtype: kl.cpp.function("cpp.cpp", "square", flags=[f"-DKL_T={name}"]) for dtype, name in CPP_NAMES.items()}


def square_cpp(x: torch.Tensor) -> torch.Tensor:
    require_float(x, "square", CPP_NAMES)
    x, y, size = elementwise(x)
    ENTRIES[x.dtype](x, y, *size, torch.get_num_threads())
    return y
