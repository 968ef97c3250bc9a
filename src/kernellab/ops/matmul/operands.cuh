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

// A thread's way through an operand: tile after tile of DEPTH along its depth. Of each tile it takes a chunk of 16 bytes
// from every PASS-th row of memory; a row has CHUNKS of them.
template <typename T, int ROWS, int CHUNKS, int DEPTH, int THREADS, bool BY_LINES>
struct Walk {
  static constexpr int WIDTH = 16 / sizeof(T), PASS = THREADS / CHUNKS, PASSES = (ROWS + PASS - 1) / PASS;
  static_assert(THREADS % CHUNKS == 0, "a thread takes the same chunk of all its rows");
  const T* from;
  int64 step, depth_left;
  int lines_left;

  __device__ __forceinline__ static int row(int i) { return threadIdx.x / CHUNKS + i * PASS; }
  __device__ __forceinline__ static int chunk() { return threadIdx.x % CHUNKS; }
  // Where there are more threads than chunks, the others have none.
  __device__ __forceinline__ static bool takes(int i) { return ROWS % PASS == 0 || row(i) < ROWS; }

  __device__ __forceinline__ Walk(const Operand<T>& operand, int64 first_line) {
    const int line = BY_LINES ? row(0) : chunk() * WIDTH, depth = BY_LINES ? chunk() * WIDTH : row(0);
    step = operand.step;
    from = operand.start + (BY_LINES ? (first_line + line) * step + depth : depth * step + first_line + line);
    lines_left = existing(operand.lines - first_line - line, 1 << 30);
    depth_left = operand.depth - depth;
  }
  // How many elements of the i-th chunk exist.
  __device__ __forceinline__ int count(int i) const {
    if (BY_LINES) return i * PASS < lines_left ? existing(depth_left, WIDTH) : 0;
    return i * PASS < depth_left ? existing(lines_left, WIDTH) : 0;
  }
  __device__ __forceinline__ const T* next_row(const T* row) const { return row + PASS * step; }
  __device__ __forceinline__ void next_tile() {
    from += BY_LINES ? DEPTH : DEPTH * step;
    depth_left -= DEPTH;
  }
};

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
