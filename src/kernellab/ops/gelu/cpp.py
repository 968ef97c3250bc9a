"""GeLU for the CPU in C++: cpp.cpp holds the arithmetic, ../rows.hpp moves the data."""

import torch

import kernellab as kl
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.layout import elementwise

ENTRIES = {
    (form, dtype): kl.cpp.function("cpp.cpp", f"gelu_{form}", flags=[f"-DKL_T={name}"])
    for form in ("tanh", "none")
    for dtype, name in CPP_NAMES.items()
}


def gelu_cpp(x: torch.Tensor, approximate: str = "tanh") -> torch.Tensor:
    require_float(x, "gelu", CPP_NAMES)
    x, y, size = elementwise(x)
    ENTRIES[approximate, x.dtype](x, y, *size, torch.get_num_threads())
    return y
