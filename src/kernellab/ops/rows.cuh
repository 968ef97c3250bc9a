// Ops along the last dim: the part of a row that a thread holds, and the maximum and the sum of exponentials that
// threads find together. Independent of any op.
#pragma once

#include <math_constants.h>

#include "vectors.cuh"

constexpr float LOG2E = 1.4426950408889634f;
#define INF CUDART_INF_F

// The maximum of some elements and the sum of exp(element - maximum). NaN reaches the sum, not the maximum.
struct Stats {
  float peak, total;

  // The number to subtract. If all is -inf so far, -inf - -inf would be NaN; with a finite number exp gives 0.
  __device__ float base() const { return peak == -INF ? 0.0f : peak; }
};

#define NOTHING (Stats{-INF, 0.0f})

// The exact difference is taken before scaling: rows of +-1000, or of the lowest finite number, work.
__device__ __forceinline__ float exp_above(float x, float base) { return exp2_fast((x - base) * LOG2E); }

__device__ __forceinline__ Stats merge(Stats a, Stats b) {
  Stats both;
  both.peak = fmaxf(a.peak, b.peak);
  const float base = both.base();
  both.total = a.total * exp_above(a.peak, base) + b.total * exp_above(b.peak, base);
  return both;
}

// Every lane gets the merged stats of its group of LANES neighbours.
template <int LANES>
__device__ __forceinline__ Stats merge_lanes(Stats s) {
#pragma unroll
  for (int apart = LANES / 2; apart > 0; apart /= 2) {
    Stats other;
    other.peak = __shfl_xor_sync(~0u, s.peak, apart);
    other.total = __shfl_xor_sync(~0u, s.total, apart);
    s = merge(s, other);
  }
  return s;
}

// Every thread of a block of whole warps gets the merged stats of all of them. Between two calls, a __syncthreads().
__device__ __forceinline__ Stats merge_block(Stats s) {
  __shared__ Stats of_warp[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  s = merge_lanes<32>(s);
  if (lane == 0) of_warp[warp] = s;
  __syncthreads();
  s = lane < blockDim.x / 32 ? of_warp[lane] : NOTHING;
  return merge_lanes<32>(s);
}

// A thread's share of a row: VECS accesses, `step` apart, kept as they lie in memory. Beyond the row: -inf, or `beyond`.
// Index is int where a row is known to be short enough: 64-bit indices would take registers from the row.
template <typename T, int WIDTH, int VECS, typename Index>
struct Share {
  typedef Vec<T, WIDTH> V;
  static constexpr int ACCESSES = VECS, ELEMENTS = WIDTH;
  V v[VECS];

  __device__ __forceinline__ void load(const V* x, int64 x_col, Index first, Index step, Index cols,
                                       float beyond = -INF) {
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) v[i].set(k, beyond);
      if (at < cols) v[i] = WIDTH > 1 ? x[at] : x[at * x_col];
    }
  }

  // TOGETHER accesses at a time: a larger number rescales the sum less often, a smaller one needs fewer registers,
  // because 16-bit elements take fp32 registers only while they are used.
  template <int TOGETHER = 1>
  __device__ __forceinline__ Stats stats(Stats s = NOTHING) const {
#pragma unroll
    for (int first = 0; first < VECS; first += TOGETHER) {
      float peak = s.peak;
#pragma unroll
      for (int i = first; i < first + TOGETHER; i++)
#pragma unroll
        for (int k = 0; k < WIDTH; k++) peak = fmaxf(peak, v[i][k]);
      const float base = Stats{peak, 0.0f}.base();
      s.total *= exp_above(s.peak, base);
#pragma unroll
      for (int i = first; i < first + TOGETHER; i++)
#pragma unroll
        for (int k = 0; k < WIDTH; k++) s.total += exp_above(v[i][k], base);
      s.peak = peak;
    }
    return s;
  }
};

// The elements of a contiguous row that start on a multiple of 16 bytes, as accesses of WIDTH elements. Those before
// and after, fewer than WIDTH each, are taken one at a time. With WIDTH 1 every element is an access.
template <typename T, int WIDTH>
struct Peeled {
  int64 head, accesses;
  int extras;

  __device__ __forceinline__ Peeled(const T* row, int64 cols) {
    const int64 ahead = WIDTH > 1 ? (0 - (unsigned long long)row) % 16 / sizeof(T) : 0;
    head = ahead < cols ? ahead : cols;
    accesses = (cols - head) / WIDTH;
    extras = cols - accesses * WIDTH;
  }
  // The column of extra element i.
  __device__ int64 extra(int64 i) const { return i < head ? i : accesses * WIDTH + i; }
};
