"""GeLU in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import torch
import triton
import triton.language as tl

from kernellab.ops.elementwise_triton import map_triton

# 0.5·(1 + tanh(u)) is the sigmoid of 2u, so with u = √(2/π)·(x + 0.044715·x³) the tanh form is
# x / (1 + 2^t), t = −2·log2(e)·u = x·(LINEAR + CUBIC·x²). Where 2^t overflows, the quotient is 0, which is
# right; (e^2u − 1) / (e^2u + 1) would be inf / inf there.
LINEAR = tl.constexpr(-2.302208198144325)  # −2·log2(e)·√(2/π)
CUBIC = tl.constexpr(-0.10294323958002349)  # 0.044715 times that
SQRT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def gelu_tanh(x):
    return x / (1.0 + tl.exp2(x * (LINEAR + CUBIC * (x * x))))


@triton.jit
def gelu_erf(x):
    return 0.5 * x * (1.0 + tl.math.erf(x * SQRT_HALF))


FORMS = {"tanh": gelu_tanh, "none": gelu_erf}


def gelu_triton(x: torch.Tensor, approximate: str = "tanh") -> torch.Tensor:
    return map_triton(x, FORMS[approximate], "gelu")
