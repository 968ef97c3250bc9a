// Elementwise ops: how elements are moved. The op's functor F, on fp32 values, says what is computed from
// F::INS inputs to F::OUTS outputs: f(in, out) reads in[0], in[1], … and writes out[0], out[1], …
#pragma once

#include "vectors.cuh"

// One 16-byte access per thread and tensor in blocks of 128: on an H200 (2026-11-15) 4285 GB/s for fp32 GeLU, where
// four accesses in blocks of 256 gave 4068. Enough small blocks are resident to keep the memory busy.
constexpr int FLAT_THREADS = 128;
// Strided accesses need address arithmetic, so a thread takes LOADS rows at a time.
constexpr int ROWS_THREADS = 256;
constexpr int LOADS = 4;

template <class F, typename T, int WIDTH>
__device__ __forceinline__ void apply(F f, const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y) {
#pragma unroll
  for (int i = 0; i < WIDTH; i++) {
    float in[F::INS], out[F::OUTS];
#pragma unroll
    for (int k = 0; k < F::INS; k++) in[k] = x[k][i];
    f(in, out);
#pragma unroll
    for (int k = 0; k < F::OUTS; k++) y[k].set(i, out[k]);
  }
}

// The tensors are [n] with stride 1: F::INS inputs, then F::OUTS outputs. All start on a multiple of WIDTH
// elements. Thread i takes access i; the elements beyond the last whole access, fewer than WIDTH, go one each
// to the threads after it.
template <class F, typename T, int WIDTH, typename... Pointer>
__global__ void __launch_bounds__(FLAT_THREADS) map_flat(int64 n, Pointer... pointers) {
  T* const t[] = {pointers...};
  const int64 accesses = n / WIDTH;
  const int64 at = (int64)blockIdx.x * FLAT_THREADS + threadIdx.x;
  if (at < accesses) {
    typedef Vec<T, WIDTH> V;
    V in[F::INS], out[F::OUTS];
#pragma unroll
    for (int k = 0; k < F::INS; k++) in[k] = reinterpret_cast<const V*>(t[k])[at];
    apply(F(), in, out);
#pragma unroll
    for (int k = 0; k < F::OUTS; k++) reinterpret_cast<V*>(t[F::INS + k])[at] = out[k];
  } else {
    const int64 left = accesses * WIDTH + (at - accesses);
    if (left >= n) return;
    Vec<T, 1> in[F::INS], out[F::OUTS];
#pragma unroll
    for (int k = 0; k < F::INS; k++) in[k].set(0, to_float(t[k][left]));
    apply(F(), in, out);
#pragma unroll
    for (int k = 0; k < F::OUTS; k++) t[F::INS + k][left] = from_float<T>(out[k][0]);
  }
}

// A tensor of rows and columns; strides are counted in accesses.
template <typename T>
struct Strided {
  T* start;
  int64 row, col;
};

template <typename T>
__device__ __forceinline__ void unpack(Strided<T>*) {}

template <typename T, typename... Rest>
__device__ __forceinline__ void unpack(Strided<T>* to, T* start, int64 row, int64 col, Rest... rest) {
  *to = {start, row, col};
  unpack(to + 1, rest...);
}

// The tensors are [rows, cols] with any strides: `args` has start, row stride and column stride of each, all counted
// in accesses of WIDTH elements (WIDTH > 1 only if rows are aligned to it and all column strides are 1).
// Threads run along the columns; a block moves down its columns, LOADS rows at a time.
template <class F, typename T, int WIDTH, typename... Arg>
__global__ void __launch_bounds__(ROWS_THREADS) map_rows(int64 rows, int64 cols, Arg... args) {
  typedef Vec<T, WIDTH> V;
  Strided<T> t[F::INS + F::OUTS];
  unpack(t, args...);
  const int64 col = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  const int64 step = (int64)gridDim.y * blockDim.y;
  for (int64 first = (int64)blockIdx.y * blockDim.y + threadIdx.y; first < rows; first += LOADS * step) {
    V in[LOADS][F::INS];
#pragma unroll
    for (int j = 0; j < LOADS; j++) {
      const int64 row = first + j * step;
#pragma unroll
      for (int k = 0; k < F::INS; k++)
        if (row < rows) in[j][k] = reinterpret_cast<const V*>(t[k].start)[row * t[k].row + col * t[k].col];
    }
#pragma unroll
    for (int j = 0; j < LOADS; j++) {
      const int64 row = first + j * step;
      if (row >= rows) return;
      V out[F::OUTS];
      apply(F(), in[j], out);
#pragma unroll
      for (int k = 0; k < F::OUTS; k++) {
        const Strided<T>& y = t[F::INS + k];
        reinterpret_cast<V*>(y.start)[row * y.row + col * y.col] = out[k];
      }
    }
  }
}

// Functors from an activation A with A::value(x) and A::slope(x), its derivative.
template <class A>
struct Activation {
  static constexpr int INS = 1, OUTS = 1;
  __device__ void operator()(const float* in, float* out) const { out[0] = A::value(in[0]); }
};

template <class A>
struct ActivationBackward {
  static constexpr int INS = 2, OUTS = 1;  // the upstream gradient and x
  __device__ void operator()(const float* in, float* out) const { out[0] = in[0] * A::slope(in[1]); }
};

template <class A>
struct Gated {
  static constexpr int INS = 2, OUTS = 1;  // gate and up
  __device__ void operator()(const float* in, float* out) const { out[0] = A::value(in[0]) * in[1]; }
};

template <class A>
struct GatedBackward {
  static constexpr int INS = 3, OUTS = 2;  // the upstream gradient, gate and up; the gradients of gate and up
  __device__ void operator()(const float* in, float* out) const {
    out[0] = in[0] * in[2] * A::slope(in[1]);
    out[1] = in[0] * A::value(in[1]);
  }
};
