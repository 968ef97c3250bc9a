"""Square in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import triton
import triton.language as tl  # the interpreter needs it in the module of every jitted function


@triton.jit
def square_of(x: tl.tensor):
    return x * x


@triton.jit
def square_backward(upstream, x):
    return 2.0 * x * upstream
