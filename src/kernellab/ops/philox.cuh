// Philox4x32-10, random words from a seed, an offset and an element's index: see philox.py.
#pragma once

#include "vectors.cuh"

// An element's counter without the offset: the lower words are its index divided by 4. `place` is its number among the
// four elements that share the counter.
struct Counter {
  unsigned low, high, place;

  // Of the element `ahead` places after one whose index is a multiple of 2^k; ahead < 2^k, so that no carry reaches
  // `high`.
  __device__ __forceinline__ Counter(int64 index, unsigned ahead)
      : low((unsigned)(index >> 2) + ahead / 4), high(index >> 34), place(((unsigned)index + ahead) % 4) {}
};

struct Philox {
  unsigned key[2], offset[2];

  __device__ __forceinline__ Philox(int64 seed, int64 offset)
      : key{(unsigned)seed, (unsigned)(seed >> 32)}, offset{(unsigned)offset, (unsigned)(offset >> 32)} {}

  // The words of the elements of COUNT counters from (low, high) on, four from each; no carry reaches `high`. Where
  // `high` is the same for all threads of a block, so is half of the first two rounds, which the compiler then
  // computes once for a warp.
  template <int COUNT>
  __device__ __forceinline__ void block_words(unsigned low, unsigned high, uint4 (&c)[COUNT]) const {
#pragma unroll
    for (int i = 0; i < COUNT; i++) c[i] = {low + i, high, offset[0], offset[1]};
    unsigned k0 = key[0], k1 = key[1];
#pragma unroll
    for (int round = 0; round < 10; round++) {
#pragma unroll
      for (int i = 0; i < COUNT; i++) {
        const unsigned long long a = multiply_wide(c[i].x, 0xD2511F53u), b = multiply_wide(c[i].z, 0xCD9E8D57u);
        c[i] = {(unsigned)(b >> 32) ^ c[i].y ^ k0, (unsigned)b, (unsigned)(a >> 32) ^ c[i].w ^ k1, (unsigned)a};
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  }

  // The words of an access of WIDTH elements: of one, or of all that share its counters.
  template <int WIDTH>
  __device__ __forceinline__ void words(Counter counter, unsigned (&to)[WIDTH]) const {
    static_assert(WIDTH == 1 || WIDTH % 4 == 0, "an access is one element, or has all words of its counters");
    uint4 c[(WIDTH + 3) / 4];
    block_words(counter.low, counter.high, c);
    if constexpr (WIDTH == 1) {
      const unsigned lower = counter.place & 1 ? c[0].y : c[0].x, upper = counter.place & 1 ? c[0].w : c[0].z;
      to[0] = counter.place & 2 ? upper : lower;
    } else {
#pragma unroll
      for (int i = 0; i < WIDTH / 4; i++) {
        to[4 * i] = c[i].x, to[4 * i + 1] = c[i].y, to[4 * i + 2] = c[i].z, to[4 * i + 3] = c[i].w;
      }
    }
  }
};
