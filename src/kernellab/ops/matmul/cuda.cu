// Products of matrices by rows or by columns, of any size. studies.cu has the steps that lead here.
#include "fma.cuh"
#include "tensor_tiles.cuh"

constexpr int GROUP = 8;  // rows of tiles that neighbouring blocks share

// By multiply-adds in fp32: float as it is, and all types on GPUs before sm_80. The next tiles are loaded into registers
// while the present ones, in shared memory, are multiplied. cp.async would save the registers, but it cannot transpose an
// operand by lines, nor convert 16-bit types.
template <typename T, int LINES, bool A_BY_LINES, bool B_BY_LINES, bool A_ALIGNED, bool B_ALIGNED>
__global__ void __launch_bounds__(FMA_THREADS)
matmul_fma(const T* a, int64 a_step, const T* b, int64 b_step, T* c, int64 rows, int64 cols, int64 depth) {
  alignas(16) __shared__ float a_tiles[2][FMA_DEPTH][LINES], b_tiles[2][FMA_DEPTH][LINES];
  const TilePlace tile = tile_of_block<GROUP>((rows + LINES - 1) / LINES, (cols + LINES - 1) / LINES);
  const int64 row = tile.row * LINES, col = tile.col * LINES;
  Fetch<T, LINES, A_BY_LINES, A_ALIGNED> a_fetch({a, a_step, rows, depth}, row);
  Fetch<T, LINES, B_BY_LINES, B_ALIGNED> b_fetch({b, b_step, cols, depth}, col);
  Sums<LINES> sums;
  sums.clear();
  const auto load = [&] { a_fetch.load(), b_fetch.load(); };
  const auto store = [&](int stage) { a_fetch.store(a_tiles[stage]), b_fetch.store(b_tiles[stage]); };
  load();
  store(0);
  __syncthreads();
  int stage = 0;
#pragma unroll 1
  for (int64 d = 0; d < depth; d += FMA_DEPTH, stage ^= 1) {
    const bool more = d + FMA_DEPTH < depth;
    if (more) load();
    sums.add(a_tiles[stage], b_tiles[stage]);
    if (more) store(stage ^ 1);
    __syncthreads();
  }
  sums.write(c, rows, cols, row, col);
}

// By tensor cores: 16-bit types, and float rounded to tf32. A ring of STAGES tiles of each operand is in shared memory;
// while one is multiplied, copies of the others are under way. A block computes M × N results, a warp of it WARP_M × WARP_N.
template <typename T, int M, int N, int WARP_M, int WARP_N, int STAGES, bool A_BY_LINES, bool B_BY_LINES, bool A_ALIGNED,
          bool B_ALIGNED>
__global__ void __launch_bounds__(M / WARP_M * (N / WARP_N) * 32, 1)
matmul_tensor(const T* a, int64 a_step, const T* b, int64 b_step, T* c, int64 rows, int64 cols, int64 depth) {
  typedef Tile<T, M, A_BY_LINES> TileA;
  typedef Tile<T, N, B_BY_LINES> TileB;
  constexpr int THREADS = M / WARP_M * (N / WARP_N) * 32, DEPTH = TileA::DEPTH;
  extern __shared__ float shared[];
  T* const tiles = reinterpret_cast<T*>(shared);  // [STAGES][a, b]
  const TilePlace tile = tile_of_block<GROUP>((rows + M - 1) / M, (cols + N - 1) / N);
  const int64 row = tile.row * M, col = tile.col * N;
  typename TileA::template Way<THREADS> a_way({a, a_step, rows, depth}, row);
  typename TileB::template Way<THREADS> b_way({b, b_step, cols, depth}, col);
  const auto a_tile = [&](int64 n) { return tiles + (int)(n % STAGES) * (TileA::SIZE + TileB::SIZE); };
  const auto b_tile = [&](int64 n) { return a_tile(n) + TileA::SIZE; };
  const int64 count = (depth + DEPTH - 1) / DEPTH;
  // A group for each tile, also where there is none any more: so the last STAGES − 2 are those that are still under way.
  const auto fetch = [&](int64 n) {
    if (n < count) {
      TileA::template fetch<A_ALIGNED, THREADS>(a_tile(n), a_way);
      TileB::template fetch<B_ALIGNED, THREADS>(b_tile(n), b_way);
    }
    copy_commit();
  };
  const int warp = threadIdx.x / 32, warp_row = warp % (M / WARP_M) * WARP_M, warp_col = warp / (M / WARP_M) * WARP_N;
  WarpSums<T, WARP_M, WARP_N> sums;
  sums.clear();
  for (int n = 0; n < STAGES - 1; n++) fetch(n);
#pragma unroll 1
  for (int64 n = 0; n < count; n++) {
    copy_wait<STAGES - 2>();
    __syncthreads();  // tile n is there for all, and all are done with tile n − 1, whose place is filled again
    fetch(n + STAGES - 1);
    sums.template add<TileA, TileB>(a_tile(n), b_tile(n), warp_row, warp_col);
  }
  __syncthreads();
  sums.write(c, rows, cols, row + warp_row, col + warp_col, tiles + warp * sums.SCRATCH);
}
