// GeLU: the arithmetic. ../elementwise.cuh moves the data; cuda.py names map_flat<GeluTanh, ...> and so on.
#include "../elementwise.cuh"

// 0.5·(1 + tanh(u)) is the sigmoid of 2u, so with u = √(2/π)·(x + 0.044715·x³) the tanh form is
// x / (1 + 2^t), t = -2·log2(e)·u = x·(LINEAR + CUBIC·x²). Where 2^t overflows, the quotient is 0, which
// is right; (e^2u - 1) / (e^2u + 1) would be inf / inf there.
struct GeluTanh {
  __device__ float operator()(float x) const {
    constexpr float LINEAR = -2.302208198144325f;  // -2·log2(e)·√(2/π)
    constexpr float CUBIC = -0.10294323958002349f;  // 0.044715 times that
    return __fdividef(x, 1.0f + exp2_fast(x * (LINEAR + CUBIC * (x * x))));
  }
};

struct GeluErf {
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f)); }
};
