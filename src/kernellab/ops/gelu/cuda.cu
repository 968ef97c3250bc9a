// GeLU: the arithmetic. ../elementwise.cuh moves the data.
#include "../elementwise.cuh"

// 0.5·(1 + tanh(u)) is the sigmoid of 2u, so with u = √(2/π)·(x + 0.044715·x³) the tanh form is
// x / (1 + 2^t), t = -2·log2(e)·u = x·(LINEAR + CUBIC·x²). Where 2^t overflows, the quotient is 0, which
// is right; (e^2u - 1) / (e^2u + 1) would be inf / inf there.
struct GeluTanh {
  static constexpr float LINEAR = -2.302208198144325f;  // -2·log2(e)·√(2/π)
  static constexpr float CUBIC = -0.10294323958002349f;  // 0.044715 times that
  static constexpr float LN2 = 0.6931471805599453f;

  __device__ static float value(float x) { return __fdividef(x, 1.0f + exp2_fast(x * (LINEAR + CUBIC * (x * x)))); }

  // With s = 1 / (1 + 2^t) the value is x·s, and its slope s + x·s·(1 - s)·2u', where 2u' = -ln 2·t'. Beyond
  // |x| = 16, s·(1 - s) is 0 in fp32, and t' is kept finite: 0·inf would be NaN.
  __device__ static float slope(float x) {
    const float square = x * x;
    const float s = __fdividef(1.0f, 1.0f + exp2_fast(x * (LINEAR + CUBIC * square)));
    return s + x * (s * (1.0f - s) * (-LN2 * (LINEAR + 3.0f * CUBIC * fminf(square, 256.0f))));
  }
};

struct GeluErf {
  static constexpr float SQRT_HALF = 0.7071067811865476f;
  static constexpr float DENSITY_AT_0 = 0.3989422804014327f;  // 1/√(2π)
  static constexpr float HALF_LOG2E = 0.7213475204444817f;

  __device__ static float value(float x) { return 0.5f * x * (1.0f + erff(x * SQRT_HALF)); }

  // Φ(x) + x·φ(x).
  __device__ static float slope(float x) {
    return 0.5f * (1.0f + erff(x * SQRT_HALF)) + x * (DENSITY_AT_0 * exp2_fast(-HALF_LOG2E * (x * x)));
  }
};
