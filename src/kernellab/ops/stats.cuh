// The maximum of the elements of a row and the sum of their exponentials, which threads find together: what softmax, its
// logarithm and cross-entropy are computed from.
#pragma once

#include <math_constants.h>

#include "teams.cuh"

constexpr float LOG2E = 1.4426950408889634f;
#define INF CUDART_INF_F

// The maximum of some elements and the sum of exp(element - maximum). NaN reaches the sum, not the maximum.
struct Stats {
  float peak, total;

  __device__ static Stats nothing() { return {-INF, 0.0f}; }

  // The number to subtract. If all is -inf so far, -inf - -inf would be NaN; with a finite number exp gives 0.
  __device__ float base() const { return peak == -INF ? 0.0f : peak; }

  // 0, which the compiler cannot know: the sign bit of a sum of exponentials.
  __device__ unsigned hidden_zero() const { return __float_as_uint(total) >> 31; }
};

// The exact difference is taken before scaling: rows of +-1000, or of the lowest finite number, work.
__device__ __forceinline__ float exp_above(float x, float base) { return exp2_fast((x - base) * LOG2E); }

__device__ __forceinline__ Stats merge(Stats a, Stats b) {
  Stats both;
  both.peak = fmaxf(a.peak, b.peak);
  const float base = both.base();
  both.total = a.total * exp_above(a.peak, base) + b.total * exp_above(b.peak, base);
  return both;
}

// The stats of a share, whose elements beyond the row are -inf, merged with `s`. TOGETHER accesses at a time: a larger
// number rescales the sum less often, a smaller one needs fewer registers, because 16-bit elements take fp32 registers
// only while they are used.
template <int TOGETHER, typename S>
__device__ __forceinline__ Stats stats_of(const S& share, Stats s) {
#pragma unroll
  for (int first = 0; first < S::ACCESSES; first += TOGETHER) {
    float peak = s.peak;
#pragma unroll
    for (int i = first; i < first + TOGETHER; i++)
#pragma unroll
      for (int k = 0; k < S::ELEMENTS; k++) peak = fmaxf(peak, share.v[i][k]);
    const float base = Stats{peak, 0.0f}.base();
    s.total *= exp_above(s.peak, base);
#pragma unroll
    for (int i = first; i < first + TOGETHER; i++)
#pragma unroll
      for (int k = 0; k < S::ELEMENTS; k++) s.total += exp_above(share.v[i][k], base);
    s.peak = peak;
  }
  return s;
}
