// A few neighbouring elements as one memory access, and their values as fp32. Independent of any op.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx.cuh"

typedef long long int64;  // NVRTC has no <cstdint>; 64 bits on every platform CUDA knows

template <bool FIRST, class A, class B> struct Choose { typedef A type; };
template <class A, class B> struct Choose<false, A, B> { typedef B type; };

// An unsigned integer type as wide as one access.
template <int BYTES> struct Access;
template <> struct Access<2> { typedef unsigned short type; };
template <> struct Access<4> { typedef unsigned int type; };
template <> struct Access<16> { typedef uint4 type; };

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T> __device__ T from_float(float v);
template <> __device__ __forceinline__ float from_float(float v) { return v; }
template <> __device__ __forceinline__ __half from_float(float v) { return __float2half_rn(v); }
template <> __device__ __forceinline__ __nv_bfloat16 from_float(float v) { return __float2bfloat16_rn(v); }

// A bf16 is the upper half of an fp32.
template <typename T> constexpr bool IS_UPPER_HALF = false;
template <> constexpr bool IS_UPPER_HALF<__nv_bfloat16> = true;

// WIDTH elements of type T, kept as they lie in memory: 16-bit types take half a register each.
template <typename T, int WIDTH>
struct Vec {
  typedef typename Access<sizeof(T) * WIDTH>::type Raw;
  static constexpr int ELEMENTS = WIDTH;
  Raw raw;

  __device__ __forceinline__ float operator[](int i) const {
    return to_float(reinterpret_cast<const T*>(&raw)[i]);
  }
  // The same in one instruction for a bf16, which may take two through a 16-bit register. Where elements are unpacked
  // twice, as in rows.cuh, the compiler then keeps them in between, and needs too many registers.
  __device__ __forceinline__ float unpack(int i) const {
    if constexpr (IS_UPPER_HALF<T> && WIDTH > 1) {
      const unsigned pair = reinterpret_cast<const unsigned*>(&raw)[i / 2];
      return __uint_as_float(i % 2 ? pair & 0xFFFF0000u : pair << 16);
    }
    return (*this)[i];
  }
  __device__ __forceinline__ void set(int i, float v) { reinterpret_cast<T*>(&raw)[i] = from_float<T>(v); }

  __device__ __forceinline__ static Vec filled(float value) {
    Vec v;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) v.set(i, value);
    return v;
  }

  // XORs a pattern into every 32 bits.
  __device__ __forceinline__ void flip(unsigned pattern) {
    if constexpr (sizeof(Raw) == 16) {
      raw.x ^= pattern, raw.y ^= pattern, raw.z ^= pattern, raw.w ^= pattern;
    } else {
      raw ^= pattern;
    }
  }
};
