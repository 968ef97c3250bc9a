// The operands of a product, and the order in which blocks compute its tiles.
#pragma once

#include "../vectors.cuh"

// The rows of a, or the columns of b, are the lines of an operand; each has `depth` elements. Elements of a line are
// neighbours in memory, and lines are `step` apart; or else lines are neighbours, and elements of a line `step` apart.
template <typename T>
struct Operand {
  const T* start;
  int64 step, lines, depth;
};

// How many of `width` neighbours exist if `left` are left.
__device__ __forceinline__ int existing(int64 left, int width) { return left <= 0 ? 0 : left < width ? (int)left : width; }

// 16 bytes of which the first `count` elements exist; the others are 0. ALIGNED: at a multiple of 16 bytes.
template <bool ALIGNED, typename T>
__device__ __forceinline__ Vec<T, 16 / sizeof(T)> load_chunk(const T* from, int count) {
  constexpr int WIDTH = 16 / sizeof(T);
  if (ALIGNED && count == WIDTH) return *reinterpret_cast<const Vec<T, WIDTH>*>(from);
  Vec<T, WIDTH> chunk = Vec<T, WIDTH>::filled(0.0f);
#pragma unroll
  for (int k = 0; k < WIDTH; k++)
    if (k < count) reinterpret_cast<T*>(&chunk.raw)[k] = from[k];
  return chunk;
}

// The place of a block's tile in the result. Blocks that run at the same time take neighbouring tiles: `GROUP` rows of
// tiles, column by column, so that L2 holds the operands of all. With GROUP 1 they take one row of tiles after another.
struct TilePlace {
  int64 row, col;
};
template <int GROUP>
__device__ __forceinline__ TilePlace tile_of_block(int64 tile_rows, int64 tile_cols) {
  const int64 of_group = GROUP * tile_cols, group = blockIdx.x / of_group, within = blockIdx.x - group * of_group;
  const int64 left = tile_rows - group * GROUP, rows = left < GROUP ? left : GROUP;
  return {group * GROUP + within % rows, within / rows};
}
