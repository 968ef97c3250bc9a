"""GeLU in Triton: the arithmetic; ../elementwise_triton.py moves the data."""

import triton
import triton.language as tl

# 0.5·(1 + tanh(u)) is the sigmoid of 2u, so with u = √(2/π)·(x + 0.044715·x³) the tanh form is
# x / (1 + 2^t), t = −2·log2(e)·u = x·(LINEAR + CUBIC·x²). Where 2^t overflows, the quotient is 0, which is
# right; (e^2u − 1) / (e^2u + 1) would be inf / inf there.
LINEAR = tl.constexpr(-2.302208198144325)  # −2·log2(e)·√(2/π)
CUBIC = tl.constexpr(-0.10294323958002349)  # 0.044715 times that
LN2 = tl.constexpr(0.6931471805599453)
SQRT_HALF = tl.constexpr(0.7071067811865476)
DENSITY_AT_0 = tl.constexpr(0.3989422804014327)  # 1/√(2π)
HALF_LOG2E = tl.constexpr(0.7213475204444817)


@triton.jit
def tanh_value(x):
    return x / (1.0 + tl.exp2(x * (LINEAR + CUBIC * (x * x))))


@triton.jit
def tanh_slope(x):
    """With s = 1 / (1 + 2^t) the value is x·s, and its slope s + x·s·(1 − s)·2u', where 2u' = −ln 2·t'.

    Beyond |x| = 16, s·(1 − s) is 0 in fp32, and t' is kept finite: 0·inf would be NaN.
    """
    square = x * x
    s = 1.0 / (1.0 + tl.exp2(x * (LINEAR + CUBIC * square)))
    return s + x * (s * (1.0 - s) * (-LN2 * (LINEAR + 3.0 * CUBIC * tl.minimum(square, 256.0))))


@triton.jit
def erf_value(x):
    return 0.5 * x * (1.0 + tl.math.erf(x * SQRT_HALF))


@triton.jit
def erf_slope(x):
    """Φ(x) + x·φ(x)."""
    return 0.5 * (1.0 + tl.math.erf(x * SQRT_HALF)) + x * (DENSITY_AT_0 * tl.exp2(-HALF_LOG2E * (x * x)))


@triton.jit
def tanh_backward(upstream, x):
    return upstream * tanh_slope(x)


@triton.jit
def erf_backward(upstream, x):
    return upstream * erf_slope(x)


FORMS = {"tanh": (tanh_value, tanh_backward), "none": (erf_value, erf_backward)}
