// y = f(x): how elements are moved. What is computed is F, a functor from fp32 to fp32 given by the op.
#pragma once

#include "vectors.cuh"

constexpr int THREADS = 256;
constexpr int LOADS = 4;  // accesses in flight per thread: 64 bytes cover the memory's latency

template <class F, typename T, int WIDTH>
__device__ __forceinline__ Vec<T, WIDTH> apply(F f, Vec<T, WIDTH> x) {
  Vec<T, WIDTH> y;
#pragma unroll
  for (int i = 0; i < WIDTH; i++) y.set(i, f(x[i]));
  return y;
}

// x, y: [n], stride 1. Both start on a multiple of WIDTH elements. Block b takes the
// THREADS·LOADS accesses from b·THREADS·LOADS on; the last block also what is left beyond n / WIDTH.
template <class F, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS) map_flat(const T* x, T* y, int64 n) {
  typedef Vec<T, WIDTH> V;
  F f;
  const int64 accesses = n / WIDTH;
  const int64 start = (int64)blockIdx.x * (THREADS * LOADS);
  const V* in = reinterpret_cast<const V*>(x) + start + threadIdx.x;
  V* out = reinterpret_cast<V*>(y) + start + threadIdx.x;

  if (start + THREADS * LOADS <= accesses) {
    V v[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; j++) v[j] = in[j * THREADS];
#pragma unroll
    for (int j = 0; j < LOADS; j++) out[j * THREADS] = apply(f, v[j]);
  } else {
#pragma unroll 1
    for (int64 i = start + threadIdx.x; i < accesses; i += THREADS, in += THREADS, out += THREADS)
      *out = apply(f, *in);
    const int64 left = accesses * WIDTH + threadIdx.x;
    if (left < n) y[left] = from_float<T>(f(to_float(x[left])));
  }
}

// x: [rows, cols] with strides (x_row, x_col), y: likewise, all counted in accesses of WIDTH elements
// (WIDTH > 1 only where rows keep to that alignment and both column strides are 1).
// Threads run along the columns; a block walks down its columns, LOADS rows at a time.
template <class F, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
map_rows(const T* x, T* y, int64 rows, int64 cols, int64 x_row, int64 x_col, int64 y_row, int64 y_col) {
  typedef Vec<T, WIDTH> V;
  F f;
  const int64 col = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  const V* in = reinterpret_cast<const V*>(x) + col * x_col;
  V* out = reinterpret_cast<V*>(y) + col * y_col;
  const int64 step = (int64)gridDim.y * blockDim.y;
  for (int64 row = (int64)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += LOADS * step) {
    V v[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; j++)
      if (row + j * step < rows) v[j] = in[(row + j * step) * x_row];
#pragma unroll
    for (int j = 0; j < LOADS; j++)
      if (row + j * step < rows) out[(row + j * step) * y_row] = apply(f, v[j]);
  }
}
