// Elementwise ops: how elements are moved. The op's functor F, on fp32 values, says what is computed from
// F::INS inputs to F::OUTS outputs: f(in, out) reads in[0], in[1], … and writes out[0], out[1], … Where F::RANDOM,
// f(in, out, word) gets a random word too: a further input, which is computed from the element's index and not read.
#pragma once

#include "philox.cuh"

// One 16-byte access per thread and tensor in blocks of 128: on an H200 (2026-11-15) 4285 GB/s for fp32 GeLU, where
// four accesses in blocks of 256 gave 4068. Enough small blocks are resident to keep the memory busy.
constexpr int FLAT_THREADS = 128;
// Strided accesses need address arithmetic, so a thread takes LOADS rows at a time.
constexpr int ROWS_THREADS = 256;
constexpr int LOADS = 4;

// What a functor derives from.
template <int IN_COUNT, int OUT_COUNT, bool IS_RANDOM = false>
struct Functor {
  static constexpr int INS = IN_COUNT, OUTS = OUT_COUNT;
  static constexpr bool RANDOM = IS_RANDOM;
};

// A functor with the source of its random words, if it has one. It is made from the arguments of a kernel that follow
// the tensors: seed and offset, then the functor's own parameters.
template <class F, bool RANDOM = F::RANDOM>
struct Source {
  F f;

  template <typename... Parameter>
  __device__ __forceinline__ explicit Source(Parameter... parameters) : f{parameters...} {}
};

template <class F>
struct Source<F, true> {
  Philox philox;
  F f;

  template <typename... Parameter>
  __device__ __forceinline__ explicit Source(int64 seed, int64 offset, Parameter... parameters)
      : philox(seed, offset), f{parameters...} {}
};

// f of WIDTH elements, of which the first has this counter.
template <class F, typename T, int WIDTH>
__device__ __forceinline__ void apply(const Source<F>& source, Counter counter, const Vec<T, WIDTH>* x,
                                      Vec<T, WIDTH>* y) {
  [[maybe_unused]] unsigned words[WIDTH];
  if constexpr (F::RANDOM) source.philox.words(counter, words);
#pragma unroll
  for (int i = 0; i < WIDTH; i++) {
    float in[F::INS], out[F::OUTS];
#pragma unroll
    for (int k = 0; k < F::INS; k++) in[k] = x[k].unpack(i);
    if constexpr (F::RANDOM) {
      source.f(in, out, words[i]);
    } else {
      source.f(in, out);
    }
#pragma unroll
    for (int k = 0; k < F::OUTS; k++) y[k].set(i, out[k]);
  }
}

// Takes the arguments of a kernel apart: pointers to the tensors, then what the source is made from.
template <class F, typename T, typename... Parameter>
__device__ __forceinline__ Source<F> unpack(T**, Parameter... parameters) {
  return Source<F>(parameters...);
}

template <class F, typename T, typename... Rest>
__device__ __forceinline__ Source<F> unpack(T** to, T* start, Rest... rest) {
  *to = start;
  return unpack<F, T>(to + 1, rest...);
}

// The tensors are [n] with stride 1: F::INS inputs, then F::OUTS outputs. All start on a multiple of WIDTH
// elements. Thread i takes access i; the elements beyond the last whole access, fewer than WIDTH, go one each
// to the threads after it. `args` has a pointer to each tensor, then what the source is made from.
template <class F, typename T, int WIDTH, typename... Arg>
__global__ void __launch_bounds__(FLAT_THREADS) map_flat(int64 n, Arg... args) {
  T* t[F::INS + F::OUTS];
  const Source<F> source = unpack<F, T>(t, args...);
  const int64 accesses = (unsigned long long)n / WIDTH;
  const int64 first = (int64)blockIdx.x * FLAT_THREADS, at = first + threadIdx.x;
  if (at < accesses) {
    typedef Vec<T, WIDTH> V;
    V in[F::INS], out[F::OUTS];
#pragma unroll
    for (int k = 0; k < F::INS; k++) in[k] = reinterpret_cast<const V*>(t[k])[at];
    apply(source, Counter(first * WIDTH, threadIdx.x * WIDTH), in, out);
#pragma unroll
    for (int k = 0; k < F::OUTS; k++) reinterpret_cast<V*>(t[F::INS + k])[at] = out[k];
  } else {
    const int64 left = accesses * WIDTH + (at - accesses);
    if (left >= n) return;
    Vec<T, 1> in[F::INS], out[F::OUTS];
#pragma unroll
    for (int k = 0; k < F::INS; k++) in[k].set(0, to_float(t[k][left]));
    apply(source, Counter(left, 0), in, out);
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

template <class F, typename T, typename... Parameter>
__device__ __forceinline__ Source<F> unpack(Strided<T>*, Parameter... parameters) {
  return Source<F>(parameters...);
}

template <class F, typename T, typename... Rest>
__device__ __forceinline__ Source<F> unpack(Strided<T>* to, T* start, int64 row, int64 col, Rest... rest) {
  *to = {start, row, col};
  return unpack<F, T>(to + 1, rest...);
}

// The tensors are [rows, cols] with any strides: `args` has start, row stride and column stride of each, all counted
// in accesses of WIDTH elements (WIDTH > 1 only if rows are aligned to it and all column strides are 1). Where
// F::RANDOM, the elements' indices follow like a tensor without memory, and then what the source is made from.
// Threads run along the columns; a block moves down its columns, LOADS rows at a time.
template <class F, typename T, int WIDTH, typename... Arg>
__global__ void __launch_bounds__(ROWS_THREADS) map_rows(int64 rows, int64 cols, Arg... args) {
  typedef Vec<T, WIDTH> V;
  Strided<T> t[F::INS + F::OUTS + F::RANDOM];
  const Source<F> source = unpack<F, T>(t, args...);
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
      int64 index = 0;
      if constexpr (F::RANDOM) {
        const Strided<T>& indices = t[F::INS + F::OUTS];
        index = (row * indices.row + col * indices.col) * WIDTH;
      }
      apply(source, Counter(index, 0), in[j], out);
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
struct Activation : Functor<1, 1> {
  __device__ void operator()(const float* in, float* out) const { out[0] = A::value(in[0]); }
};

template <class A>
struct ActivationBackward : Functor<2, 1> {  // the upstream gradient and x
  __device__ void operator()(const float* in, float* out) const { out[0] = in[0] * A::slope(in[1]); }
};

template <class A>
struct Gated : Functor<2, 1> {  // gate and up
  __device__ void operator()(const float* in, float* out) const { out[0] = A::value(in[0]) * in[1]; }
};

template <class A>
struct GatedBackward : Functor<3, 2> {  // the upstream gradient, gate and up; the gradients of gate and up
  __device__ void operator()(const float* in, float* out) const {
    out[0] = in[0] * in[2] * A::slope(in[1]);
    out[1] = in[0] * A::value(in[1]);
  }
};
