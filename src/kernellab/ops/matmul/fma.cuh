// Products of tiles by multiply-adds in fp32: operands of any type, on any GPU.
//
// A tile is kept in shared memory as floats, element by element of the depth: the LINES lines of one depth are neighbours.
#pragma once

#include "operands.cuh"

constexpr int FMA_THREADS = 256, FMA_DEPTH = 16;

// What is kept beside what: chunks of the same depth in different banks, when lines of four depths are written at once.
__device__ __forceinline__ int swizzle_of(int depth) { return depth / 4 % 4 * 8; }

// A thread's part of a tile, on its way from memory to shared memory.
template <typename T, int LINES, bool BY_LINES, bool ALIGNED>
struct Fetch {
  static constexpr int WIDTH = 16 / sizeof(T), ROWS = BY_LINES ? LINES : FMA_DEPTH;
  typedef Walk<T, ROWS, (BY_LINES ? FMA_DEPTH : LINES) / WIDTH, FMA_DEPTH, FMA_THREADS, BY_LINES> Way;
  Way way;
  Vec<T, WIDTH> chunks[Way::PASSES];

  __device__ __forceinline__ Fetch(const Operand<T>& operand, int64 first_line) : way(operand, first_line) {}

  // The next tile.
  __device__ __forceinline__ void load() {
    const T* from = way.from;
#pragma unroll
    for (int i = 0; i < Way::PASSES; i++, from = way.next_row(from))
      if (way.takes(i)) chunks[i] = load_chunk<ALIGNED>(from, way.count(i));
    way.next_tile();
  }
  __device__ __forceinline__ void store(float (*tile)[LINES]) const {
#pragma unroll
    for (int i = 0; i < Way::PASSES; i++) {
      if (!way.takes(i)) continue;
      const int row = way.row(i), col = way.chunk() * WIDTH;
      if constexpr (BY_LINES) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) tile[col + k][row ^ swizzle_of(col + k)] = chunks[i][k];
      } else {
        float* const to = &tile[row][col ^ swizzle_of(row)];
#pragma unroll
        for (int k = 0; k < WIDTH; k += 4)
          *reinterpret_cast<float4*>(to + k) =
              float4{chunks[i][k], chunks[i][k + 1], chunks[i][k + 2], chunks[i][k + 3]};
      }
    }
  }
};

// A thread's results: squares of 4 × 4, as many in each direction as fit into its share of a tile. Threads of a block form
// a square of 16 × 16.
template <int LINES>
struct Sums {
  static constexpr int FOURS = LINES / 64, EACH = 4 * FOURS;
  float of[EACH][EACH];

  __device__ __forceinline__ static int first(int thread, int four) { return 4 * thread + 64 * four; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int j = 0; j < EACH; j++) of[i][j] = 0.0f;
  }
  // Adds the product of two tiles. Each value that is read is used EACH times.
  __device__ __forceinline__ void add(const float (*a)[LINES], const float (*b)[LINES]) {
#pragma unroll
    for (int d = 0; d < FMA_DEPTH; d++) {
      float x[EACH], y[EACH];
#pragma unroll
      for (int four = 0; four < FOURS; four++) {
        const int row = first(threadIdx.x / 16, four), col = first(threadIdx.x % 16, four);
        *reinterpret_cast<float4*>(x + 4 * four) = *reinterpret_cast<const float4*>(&a[d][row ^ swizzle_of(d)]);
        *reinterpret_cast<float4*>(y + 4 * four) = *reinterpret_cast<const float4*>(&b[d][col ^ swizzle_of(d)]);
      }
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) of[i][j] = fmaf(x[i], y[j], of[i][j]);
    }
  }
  // Writes them to a result of `rows × cols` whose rows are contiguous, four columns at a time where these are aligned.
  template <typename T>
  __device__ __forceinline__ void write(T* c, int64 rows, int64 cols, int64 first_row, int64 first_col) const {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int64 row = first_row + first(threadIdx.x / 16, i / 4) + i % 4;
      if (row >= rows) continue;
#pragma unroll
      for (int four = 0; four < FOURS; four++) {
        const int64 col = first_col + first(threadIdx.x % 16, four);
        T* const to = c + row * cols + col;
        if (cols % 4 == 0) {
          alignas(16) T values[4];
#pragma unroll
          for (int k = 0; k < 4; k++) values[k] = from_float<T>(of[i][4 * four + k]);
          typedef typename Choose<sizeof(T) == 4, float4, float2>::type Four;
          if (col < cols) *reinterpret_cast<Four*>(to) = *reinterpret_cast<Four*>(values);
        } else {
#pragma unroll
          for (int k = 0; k < 4; k++)
            if (col + k < cols) to[k] = from_float<T>(of[i][4 * four + k]);
        }
      }
    }
  }
};
