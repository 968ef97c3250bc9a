// Matmul from the textbook to cuda.cu, each kernel one step from the one before. All matrices are contiguous by rows.
// docs/matmul.md says what each step gains.
#include "fma.cuh"
#include "tensor_tiles.cuh"

// The textbook: a thread for each result. Neighbouring threads compute neighbouring rows: they read a, and write c, a row
// apart, and use 2 or 4 bytes of every 32 that memory delivers.
template <typename T>
__global__ void __launch_bounds__(256) matmul_naive(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  const int64 tile_cols = (cols + 7) / 8;
  const int64 row = blockIdx.x / tile_cols * 32 + threadIdx.x % 32, col = blockIdx.x % tile_cols * 8 + threadIdx.x / 32;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int64 d = 0; d < depth; d++) sum = fmaf(to_float(a[row * depth + d]), to_float(b[d * cols + col]), sum);
  c[row * cols + col] = from_float<T>(sum);
}

// Coalesced: neighbouring threads compute neighbouring columns. The threads of a warp read one value of a, and neighbours
// of b and c.
template <typename T>
__global__ void __launch_bounds__(256) matmul_coalesced(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  const int64 tile_cols = (cols + 31) / 32;
  const int64 row = blockIdx.x / tile_cols * 8 + threadIdx.x / 32, col = blockIdx.x % tile_cols * 32 + threadIdx.x % 32;
  if (row >= rows || col >= cols) return;
  float sum = 0.0f;
  for (int64 d = 0; d < depth; d++) sum = fmaf(to_float(a[row * depth + d]), to_float(b[d * cols + col]), sum);
  c[row * cols + col] = from_float<T>(sum);
}

// Shared: a block loads tiles of 32 × 32, and each value that it loads is used 32 times.
template <typename T>
__global__ void __launch_bounds__(1024) matmul_shared(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  __shared__ float a_tile[32][32], b_tile[32][32];
  const int64 tile_cols = (cols + 31) / 32;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int64 row = blockIdx.x / tile_cols * 32 + y, col = blockIdx.x % tile_cols * 32 + x;
  float sum = 0.0f;
  for (int64 d = 0; d < depth; d += 32) {
    a_tile[y][x] = row < rows && d + x < depth ? to_float(a[row * depth + d + x]) : 0.0f;
    b_tile[y][x] = d + y < depth && col < cols ? to_float(b[(d + y) * cols + col]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k++) sum = fmaf(a_tile[y][k], b_tile[k][x], sum);
    __syncthreads();
  }
  if (row < rows && col < cols) c[row * cols + col] = from_float<T>(sum);
}

// Registers: a thread computes 8 × 8 results. Each value that it reads from shared memory is used 8 times, and a block of
// 256 threads computes 128 × 128 results.
template <typename T>
__global__ void __launch_bounds__(256) matmul_registers(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  __shared__ float a_tile[16][128 + 1], b_tile[16][128];  // a is transposed: without the gap, writes of a warp collide
  const int64 tile_cols = (cols + 127) / 128;
  const int64 first_row = blockIdx.x / tile_cols * 128, first_col = blockIdx.x % tile_cols * 128;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sums[8][8] = {};
  for (int64 d = 0; d < depth; d += 16) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int64 row = first_row + y + 16 * i, col = first_col + threadIdx.x % 128;
      const int of_b = threadIdx.x / 128 + 2 * i;
      a_tile[x][y + 16 * i] = row < rows && d + x < depth ? to_float(a[row * depth + d + x]) : 0.0f;
      b_tile[of_b][threadIdx.x % 128] = d + of_b < depth && col < cols ? to_float(b[(d + of_b) * cols + col]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++) {
      float left[8], right[8];
#pragma unroll
      for (int i = 0; i < 8; i++) left[i] = a_tile[k][y + 16 * i], right[i] = b_tile[k][x + 16 * i];
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const int64 row = first_row + y + 16 * i, col = first_col + x + 16 * j;
      if (row < rows && col < cols) c[row * cols + col] = from_float<T>(sums[i][j]);
    }
}

// Vector: accesses of 16 bytes, to memory where rows are aligned, and to shared memory always.
template <typename T, bool A_ALIGNED, bool B_ALIGNED>
__global__ void __launch_bounds__(FMA_THREADS)
matmul_vector(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  alignas(16) __shared__ float a_tile[FMA_DEPTH][128], b_tile[FMA_DEPTH][128];
  const TilePlace tile = tile_of_block<1>((rows + 127) / 128, (cols + 127) / 128);
  Fetch<T, 128, true, A_ALIGNED> a_fetch({a, depth, rows, depth}, tile.row * 128);
  Fetch<T, 128, false, B_ALIGNED> b_fetch({b, cols, cols, depth}, tile.col * 128);
  Sums<128> sums;
  sums.clear();
#pragma unroll 1
  for (int64 d = 0; d < depth; d += FMA_DEPTH) {
    a_fetch.load(), b_fetch.load();
    a_fetch.store(a_tile), b_fetch.store(b_tile);
    __syncthreads();
    sums.add(a_tile, b_tile);
    __syncthreads();
  }
  sums.write(c, rows, cols, tile.row * 128, tile.col * 128);
}

// Pipeline: the next tiles are loaded into registers while the present ones are multiplied, and go to a second place in
// shared memory, so that one barrier is left.
template <typename T, bool A_ALIGNED, bool B_ALIGNED>
__global__ void __launch_bounds__(FMA_THREADS)
matmul_pipeline(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  alignas(16) __shared__ float a_tiles[2][FMA_DEPTH][128], b_tiles[2][FMA_DEPTH][128];
  const TilePlace tile = tile_of_block<1>((rows + 127) / 128, (cols + 127) / 128);
  Fetch<T, 128, true, A_ALIGNED> a_fetch({a, depth, rows, depth}, tile.row * 128);
  Fetch<T, 128, false, B_ALIGNED> b_fetch({b, cols, cols, depth}, tile.col * 128);
  Sums<128> sums;
  sums.clear();
  a_fetch.load(), b_fetch.load();
  a_fetch.store(a_tiles[0]), b_fetch.store(b_tiles[0]);
  __syncthreads();
  int stage = 0;
#pragma unroll 1
  for (int64 d = 0; d < depth; d += FMA_DEPTH, stage ^= 1) {
    const bool more = d + FMA_DEPTH < depth;
    if (more) a_fetch.load(), b_fetch.load();
    sums.add(a_tiles[stage], b_tiles[stage]);
    if (more) a_fetch.store(a_tiles[stage ^ 1]), b_fetch.store(b_tiles[stage ^ 1]);
    __syncthreads();
  }
  sums.write(c, rows, cols, tile.row * 128, tile.col * 128);
}

// Tensor cores, in three steps: with STAGES 1, each pair of tiles is copied, waited for, and multiplied; with more, copies of
// the next ones are under way meanwhile; SWIZZLED tiles are without gaps. A block of 8 warps computes 128 × 256 results.
template <typename T, int STAGES, bool SWIZZLED, bool A_ALIGNED, bool B_ALIGNED>
__global__ void __launch_bounds__(256, 1) matmul_tensor_step(const T* a, const T* b, T* c, int64 rows, int64 cols, int64 depth) {
  typedef Tile<T, 128, true, SWIZZLED> TileA;
  typedef Tile<T, 256, false, SWIZZLED> TileB;
  extern __shared__ float shared[];
  T* const tiles = reinterpret_cast<T*>(shared);
  const TilePlace place = tile_of_block<1>((rows + 127) / 128, (cols + 255) / 256);
  const int64 row = place.row * 128, col = place.col * 256;
  typename TileA::template Way<256> a_way({a, depth, rows, depth}, row);
  typename TileB::template Way<256> b_way({b, cols, cols, depth}, col);
  const auto a_tile = [&](int64 n) { return tiles + (int)(n % STAGES) * (TileA::SIZE + TileB::SIZE); };
  const int64 count = (depth + TileA::DEPTH - 1) / TileA::DEPTH;
  const auto fetch = [&](int64 n) {
    if (n < count) {
      TileA::template fetch<A_ALIGNED, 256>(a_tile(n), a_way);
      TileB::template fetch<B_ALIGNED, 256>(a_tile(n) + TileA::SIZE, b_way);
    }
    copy_commit();
  };
  const int warp = threadIdx.x / 32, warp_row = warp % 2 * 64, warp_col = warp / 2 * 64;
  WarpSums<T, 64, 64> sums;
  sums.clear();
  for (int n = 0; n < STAGES - 1; n++) fetch(n);
#pragma unroll 1
  for (int64 n = 0; n < count; n++) {
    if constexpr (STAGES == 1) {
      __syncthreads();  // all are done with the tiles before
      fetch(n);
      copy_wait<0>();
      __syncthreads();
    } else {
      copy_wait<STAGES - 2>();
      __syncthreads();
      fetch(n + STAGES - 1);
    }
    sums.template add<TileA, TileB>(a_tile(n), a_tile(n) + TileA::SIZE, warp_row, warp_col);
  }
  __syncthreads();
  sums.write(c, rows, cols, row + warp_row, col + warp_col, tiles + warp * sums.SCRATCH);
}
