// Products of tiles by tensor cores: 16-bit types, and float rounded to tf32. From sm_80 on.
//
// A tile is kept in shared memory as its operand lies in memory, in rows of 16-byte chunks: a row is a line of the tile, or
// else one depth of all its lines.
#pragma once

#include "../mma.cuh"
#include "operands.cuh"

// The depth of a tile: 128 bytes, which four products of tensor cores take.
constexpr int TILE_DEPTH_BYTES = 128, PRODUCT_BYTES = 32;

// SWIZZLED: the chunks of a row change places, differently in each of eight neighbouring rows, so that chunks of one column
// are in different banks. Otherwise each row is one chunk longer than its elements, which has the same effect and takes
// more memory.
template <typename T, int LINES, bool BY_LINES, bool SWIZZLED = true>
struct Tile {
  static constexpr int WIDTH = 16 / sizeof(T), DEPTH = TILE_DEPTH_BYTES / sizeof(T);
  static constexpr int ROWS = BY_LINES ? LINES : DEPTH, CHUNKS = (BY_LINES ? DEPTH : LINES) / WIDTH;
  static constexpr int SIZE = ROWS * (SWIZZLED ? CHUNKS : CHUNKS + 1) * WIDTH;  // elements

  __device__ __forceinline__ static int chunk_at(int row, int chunk) {
    if (!SWIZZLED) return (row * (CHUNKS + 1) + chunk) * WIDTH;
    // Words of tf32 that no instruction transposes are read one by one: two neighbouring chunks of four rows at once.
    const int other = BY_LINES || sizeof(T) == 2 ? row % 8 : row % 4 * 2;
    return (row * CHUNKS + (chunk ^ other)) * WIDTH;
  }
  __device__ __forceinline__ static int element_at(int row, int col) { return chunk_at(row, col / WIDTH) + col % WIDTH; }

  template <int THREADS> using Way = Walk<T, ROWS, CHUNKS, DEPTH, THREADS, BY_LINES>;

  // All THREADS of a block begin to copy the next tile, or copy it where the operand's rows are not ALIGNED to 16 bytes.
  template <bool ALIGNED, int THREADS>
  __device__ __forceinline__ static void fetch(T* tile, Way<THREADS>& way) {
    const T* from = way.from;
#pragma unroll
    for (int i = 0; i < way.PASSES; i++, from = way.next_row(from)) {
      if (!way.takes(i)) continue;
      T* const to = tile + chunk_at(way.row(i), way.chunk());
      if constexpr (ALIGNED) {
        copy_async(to, from, way.count(i) * (int)sizeof(T));
      } else {
        *reinterpret_cast<Vec<T, WIDTH>*>(to) = load_chunk<false>(from, way.count(i));
      }
    }
    way.next_tile();
  }

  // The operand a of a tensor core: 16 lines from `line` on, the step-th 32 bytes of their depth.
  __device__ __forceinline__ static void load_a(unsigned (&words)[4], const T* tile, int line, int step) {
    const int lane = threadIdx.x % 32;
    if constexpr (BY_LINES) {
      load_matrices(words, tile + chunk_at(line + lane % 16, 2 * step + lane / 16));
    } else if constexpr (sizeof(T) == 2) {
      load_transposed(words, tile + chunk_at(16 * step + lane / 16 * 8 + lane % 8, line / 8 + lane / 8 % 2));
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) words[i] = word_at(tile, line + lane / 4 + i % 2 * 8, 8 * step + lane % 4 + i / 2 * 4);
    }
    to_operands(words);
  }
  // The operands b of two tensor cores: 8 lines each.
  __device__ __forceinline__ static void load_b(unsigned (&words)[4], const T* tile, int line, int step) {
    const int lane = threadIdx.x % 32;
    if constexpr (BY_LINES) {
      load_matrices(words, tile + chunk_at(line + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
    } else if constexpr (sizeof(T) == 2) {
      load_transposed(words, tile + chunk_at(16 * step + lane / 8 % 2 * 8 + lane % 8, line / 8 + lane / 16));
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) words[i] = word_at(tile, line + lane / 4 + i / 2 * 8, 8 * step + lane % 4 + i % 2 * 4);
    }
    to_operands(words);
  }

  __device__ __forceinline__ static unsigned word_at(const T* tile, int line, int depth) {
    return *reinterpret_cast<const unsigned*>(tile + element_at(depth, line));
  }
  __device__ __forceinline__ static void to_operands(unsigned (&words)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = TensorCore<T>::operand(words[i]);
  }
};

// The results of a warp: M × N, in squares of 16 × 8.
template <typename T, int M, int N>
struct WarpSums {
  static constexpr int STEPS = TILE_DEPTH_BYTES / PRODUCT_BYTES, WIDTH = 16 / sizeof(T);
  // Elements of shared memory that a warp needs to write its results. A row is longer by a chunk: see Tile.
  static constexpr int ROW = N + WIDTH, SCRATCH = 16 * ROW;
  float of[M / 16][N / 8][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < M / 16; i++)
#pragma unroll
      for (int j = 0; j < N / 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) of[i][j][k] = 0.0f;
  }

  // Adds the product of two tiles: of M lines of a with N lines of b. Operands of the next step are loaded while those of
  // this one are multiplied.
  template <class TileA, class TileB>
  __device__ __forceinline__ void add(const T* a, const T* b, int first_row, int first_col) {
    unsigned x[2][M / 16][4], y[2][N / 16][4];
    const auto load = [&](int step) {
#pragma unroll
      for (int i = 0; i < M / 16; i++) TileA::load_a(x[step % 2][i], a, first_row + 16 * i, step);
#pragma unroll
      for (int j = 0; j < N / 16; j++) TileB::load_b(y[step % 2][j], b, first_col + 16 * j, step);
    };
    load(0);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      if (step + 1 < STEPS) load(step + 1);
#pragma unroll
      for (int i = 0; i < M / 16; i++)
#pragma unroll
        for (int j = 0; j < N / 8; j++) {
          const unsigned operand[2] = {y[step % 2][j / 2][j % 2 * 2], y[step % 2][j / 2][j % 2 * 2 + 1]};
          TensorCore<T>::multiply(of[i][j], x[step % 2][i], operand);
        }
    }
  }

  // Writes the results to c of `rows × cols`, whose rows are contiguous. They go through shared memory, 16 rows at a time,
  // so that lanes of the warp write neighbouring 16 bytes.
  __device__ __forceinline__ void write(T* c, int64 rows, int64 cols, int64 first_row, int64 first_col, T* scratch) const {
    constexpr int CHUNKS = N / WIDTH;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < M / 16; i++) {
#pragma unroll
      for (int j = 0; j < N / 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          scratch[(lane / 4 + k / 2 * 8) * ROW + 8 * j + lane % 4 * 2 + k % 2] = from_float<T>(of[i][j][k]);
      __syncwarp();
      if (cols % WIDTH == 0) {
#pragma unroll
        for (int at = lane; at < 16 * CHUNKS; at += 32) {
          const int64 row = first_row + 16 * i + at / CHUNKS, col = first_col + at % CHUNKS * WIDTH;
          if (row < rows && col < cols)
            *reinterpret_cast<uint4*>(c + row * cols + col) =
                *reinterpret_cast<const uint4*>(scratch + at / CHUNKS * ROW + at % CHUNKS * WIDTH);
        }
      } else {
#pragma unroll 1
        for (int at = lane; at < 16 * N; at += 32) {
          const int64 row = first_row + 16 * i + at / N, col = first_col + at % N;
          if (row < rows && col < cols) c[row * cols + col] = scratch[at / N * ROW + at % N];
        }
      }
      __syncwarp();
    }
  }
};
