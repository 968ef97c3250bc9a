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
  static constexpr int CHUNKS = (BY_LINES ? FMA_DEPTH : LINES) / WIDTH, ALL = ROWS * CHUNKS;
  static constexpr int EACH = (ALL + FMA_THREADS - 1) / FMA_THREADS;
  Vec<T, WIDTH> chunks[EACH];

  __device__ __forceinline__ static bool exists(int i) { return ALL % FMA_THREADS == 0 || place(i) < ALL; }
  __device__ __forceinline__ static int place(int i) { return threadIdx.x + i * FMA_THREADS; }
  // Of the first element of a chunk, in the tile.
  __device__ __forceinline__ static int line(int i) { return BY_LINES ? place(i) / CHUNKS : place(i) % CHUNKS * WIDTH; }
  __device__ __forceinline__ static int depth(int i) { return BY_LINES ? place(i) % CHUNKS * WIDTH : place(i) / CHUNKS; }

  __device__ __forceinline__ void load(const Operand<T>& from, int64 first_line, int64 first_depth) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (!exists(i)) break;
      const int64 l = first_line + line(i), d = first_depth + depth(i);
      const int64 lines_left = from.lines - l, depth_left = from.depth - d;
      const int count = BY_LINES ? (lines_left > 0 ? existing(depth_left, WIDTH) : 0)
                                 : (depth_left > 0 ? existing(lines_left, WIDTH) : 0);
      chunks[i] = load_chunk<ALIGNED>(from.start + (BY_LINES ? l * from.step + d : d * from.step + l), count);
    }
  }
  __device__ __forceinline__ void store(float (*tile)[LINES]) const {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (!exists(i)) break;
      const int l = line(i), d = depth(i);
      if constexpr (BY_LINES) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) tile[d + k][l ^ swizzle_of(d + k)] = chunks[i][k];
      } else {
        float* const to = &tile[d][l ^ swizzle_of(d)];
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
