"""GeLU in CUDA C++: the arithmetic is in cuda.cu, the launch in ../elementwise_cuda.py."""

import functools

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.elementwise_cuda import map_cuda

FORMS = {"tanh": "GeluTanh", "none": "GeluErf"}


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)


def gelu_cuda(x: torch.Tensor, approximate: str = "tanh") -> torch.Tensor:
    return map_cuda(x, kernel, FORMS[approximate], "gelu")
