"""GeGLU in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import triton
import triton.language as tl  # noqa: F401  the interpreter needs it in the module of every jitted function

from kernellab.ops.gelu.triton import erf_slope, erf_value, tanh_slope, tanh_value


@triton.jit
def tanh_geglu(gate, up):
    return tanh_value(gate) * up


@triton.jit
def tanh_geglu_backward(upstream, gate, up):
    return upstream * up * tanh_slope(gate), upstream * tanh_value(gate)


@triton.jit
def erf_geglu(gate, up):
    return erf_value(gate) * up


@triton.jit
def erf_geglu_backward(upstream, gate, up):
    return upstream * up * erf_slope(gate), upstream * erf_value(gate)


FORMS = {"tanh": (tanh_geglu, tanh_geglu_backward), "none": (erf_geglu, erf_geglu_backward)}
