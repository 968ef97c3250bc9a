"""RMS norm in Triton: the arithmetic; ../norms_triton.py moves the data."""

import triton
import triton.language as tl  # noqa: F401  the interpreter needs it in the module of every jitted function

from kernellab.ops.norms_triton import TritonNorm


@triton.jit
def normalized(x, mean, rstd):
    return x * rstd


@triton.jit
def gradient(g, normal, mean_g, mean_product, rstd):
    return (g - normal * mean_product) * rstd


RMS_NORM = TritonNorm("rms_norm", normalized, gradient, centred=False)
