// Philox4x32-10, random words from a seed, an offset and an element's index: see philox.py.
#pragma once

#include "vectors.cuh"

struct Philox {
  unsigned key[2], offset[2];

  __device__ __forceinline__ Philox(int64 seed, int64 offset)
      : key{(unsigned)seed, (unsigned)(seed >> 32)}, offset{(unsigned)offset, (unsigned)(offset >> 32)} {}

  // The words of elements 4·block to 4·(block + COUNT) − 1, four from each counter.
  template <int COUNT>
  __device__ __forceinline__ void block_words(int64 block, uint4 (&c)[COUNT]) const {
#pragma unroll
    for (int i = 0; i < COUNT; i++) c[i] = {(unsigned)(block + i), (unsigned)((block + i) >> 32), offset[0], offset[1]};
    unsigned k0 = key[0], k1 = key[1];
#pragma unroll
    for (int round = 0; round < 10; round++) {
#pragma unroll
      for (int i = 0; i < COUNT; i++) {
        const unsigned long long a = 0xD2511F53ull * c[i].x, b = 0xCD9E8D57ull * c[i].z;
        c[i] = {(unsigned)(b >> 32) ^ c[i].y ^ k0, (unsigned)b, (unsigned)(a >> 32) ^ c[i].w ^ k1, (unsigned)a};
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  }

  // The words of WIDTH elements from index `first` on, which is a multiple of WIDTH.
  template <int WIDTH>
  __device__ __forceinline__ void words(int64 first, unsigned (&to)[WIDTH]) const {
    static_assert(WIDTH == 1 || WIDTH % 4 == 0, "an access is one element, or has all words of its counters");
    uint4 c[(WIDTH + 3) / 4];
    block_words(first >> 2, c);
    if constexpr (WIDTH == 1) {
      const unsigned low = first & 1 ? c[0].y : c[0].x, high = first & 1 ? c[0].w : c[0].z;
      to[0] = first & 2 ? high : low;
    } else {
#pragma unroll
      for (int i = 0; i < WIDTH / 4; i++) {
        to[4 * i] = c[i].x, to[4 * i + 1] = c[i].y, to[4 * i + 2] = c[i].z, to[4 * i + 3] = c[i].w;
      }
    }
  }
};
