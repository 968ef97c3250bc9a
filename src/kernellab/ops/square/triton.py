"""Square in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import torch
import triton
import triton.language as tl  # the interpreter needs it in the module of every jitted function

from kernellab.ops.elementwise_triton import map_triton


@triton.jit
def square_of(x: tl.tensor):
    return x * x


def square_triton(x: torch.Tensor) -> torch.Tensor:
    return map_triton(x, square_of, "square")
