"""SwiGLU in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import triton
import triton.language as tl  # noqa: F401  the interpreter needs it in the module of every jitted function

from kernellab.ops.silu.triton import silu_slope, silu_value


@triton.jit
def swiglu_value(gate, up):
    return silu_value(gate) * up


@triton.jit
def swiglu_backward(upstream, gate, up):
    return upstream * up * silu_slope(gate), upstream * silu_value(gate)
