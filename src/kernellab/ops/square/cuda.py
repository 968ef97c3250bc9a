"""Square in CUDA C++: the arithmetic is in cuda.cu, the launch in ../elementwise_cuda.py."""

import functools

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.elementwise_cuda import map_cuda


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)


def square_cuda(x: torch.Tensor) -> torch.Tensor:
    return map_cuda(x, kernel, "Square", "square")
