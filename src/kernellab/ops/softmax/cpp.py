"""Softmax for the CPU in C++: cpp.cpp holds the arithmetic, ../rows.hpp moves the data."""

import torch

import kernellab as kl
from kernellab.ops.layout import last_dim

# Nobody reads the floating-point exception flags; keeping them would turn each ?: into a branch.
FLAGS = ("-fno-trapping-math",)
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}
ENTRIES = {dtype: kl.cpp.function("cpp.cpp", f"softmax_{suffix}", flags=FLAGS) for dtype, suffix in DTYPES.items()}


def softmax_cpp(x: torch.Tensor) -> torch.Tensor:
    if x.dtype not in DTYPES:
        raise TypeError(f"softmax in C++ takes float32, float64, float16 or bfloat16, not {x.dtype}")
    x, y, size = last_dim(x)
    ENTRIES[x.dtype](x, y, *size, torch.get_num_threads())
    return y
