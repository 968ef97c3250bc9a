// SiLU: the arithmetic. ../elementwise.cuh moves the data.
#include "../elementwise.cuh"

struct Silu {
  static constexpr float LOG2E = 1.4426950408889634f;

  // Where the exponential overflows, the quotient is 0, which is right.
  __device__ static float value(float x) { return __fdividef(x, 1.0f + exp2_fast(-LOG2E * x)); }

  __device__ static float slope(float x) {
    const float s = __fdividef(1.0f, 1.0f + exp2_fast(-LOG2E * x));
    return s * (1.0f + x * (1.0f - s));
  }
};
