"""SiLU in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def silu_value(x):
    # Where the exponential overflows, the quotient is 0, which is right.
    return x / (1.0 + tl.exp2(-LOG2E * x))


@triton.jit
def silu_slope(x):
    s = 1.0 / (1.0 + tl.exp2(-LOG2E * x))
    return s * (1.0 + x * (1.0 - s))


@triton.jit
def silu_backward(upstream, x):
    return upstream * silu_slope(x)
