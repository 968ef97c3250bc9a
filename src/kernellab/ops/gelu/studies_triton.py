"""GeLU in Triton with a mistake that the check finds without a GPU."""

import triton
import triton.language as tl

SQRT_2_OVER_PI = tl.constexpr(0.7978845608028654)


@triton.jit
def exp_tanh_value(x):
    """Wrong on purpose: above x = 10.06 the exponential overflows, and inf / inf is NaN."""
    e = tl.exp(2.0 * SQRT_2_OVER_PI * (x + 0.044715 * (x * x * x)))
    return 0.5 * x * (1.0 + (e - 1.0) / (e + 1.0))
