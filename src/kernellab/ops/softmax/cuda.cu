// Softmax over the last dim. A row is held in registers by some lanes of a warp, a block, or a cluster of
// blocks, and so read once; only rows too wide for eight blocks' registers are read a second time.
//
// In every kernel x is [rows, cols] with strides (x_row, x_col), y is [rows, cols] contiguous, all counted
// in accesses of WIDTH elements; WIDTH > 1 only if rows are aligned to it and x_col is 1.
#include "../stats.cuh"

// A share of x, from which results are stored.
template <typename T, int WIDTH, int VECS, typename Index>
struct SoftmaxShare : Share<T, WIDTH, VECS, Index> {
  typedef Vec<T, WIDTH> V;
  using Share<T, WIDTH, VECS, Index>::v;

  // exp is computed again instead of kept: fp32 results would need twice a 16-bit row's registers. For the
  // same reason the compiler must not keep what it unpacked in stats(): the sign bit of a sum of exponentials
  // is 0, which the compiler cannot know, so XORing it in forces the compiler to unpack again.
  __device__ __forceinline__ void store(V* y, Index first, Index step, Index cols, Stats row) {
    const float base = row.base(), scale = 1.0f / row.total;
    const unsigned zero = __float_as_uint(row.total) >> 31;
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
      if constexpr (sizeof(T) < 4) v[i].flip(zero);
      V out;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) out.set(k, exp_above(v[i][k], base) * scale);
      if (at < cols) __stcs(&y[at].raw, out.raw);  // streaming: nothing here reads it again
    }
  }
};

// Narrow rows: LANES neighbouring threads per row, 32 / LANES rows per warp; no shared memory, no barrier.
template <typename T, int WIDTH, int VECS, int LANES>
__global__ void __launch_bounds__(128)
softmax_warp(const T* x, T* y, int64 rows, int64 cols, int64 x_row, int64 x_col) {
  typedef Vec<T, WIDTH> V;
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int lane = threadIdx.x % LANES;
  const int width = row < rows ? cols : 0;  // threads beyond the last row stay for the shuffles
  SoftmaxShare<T, WIDTH, VECS, int> share;
  share.load(reinterpret_cast<const V*>(x) + row * x_row, x_col, lane, LANES, width, -INF);
  const Stats stats = merge_lanes<LANES>(stats_of<1>(share, Stats::nothing()));
  share.store(reinterpret_cast<V*>(y) + row * cols, lane, LANES, width, stats);
}

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS >= cols.
template <typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024)
softmax_block(const T* x, T* y, int64 cols, int64 x_row, int64 x_col) {
  typedef Vec<T, WIDTH> V;
  const Team<CLUSTER> team;
  SoftmaxShare<T, WIDTH, VECS, int> share;
  share.load(reinterpret_cast<const V*>(x) + team.row() * x_row, x_col, team.first(), team.step(), cols, -INF);
  const Stats stats = team.merge_all(stats_of<1>(share, Stats::nothing()));
  share.store(reinterpret_cast<V*>(y) + team.row() * cols, team.first(), team.step(), cols, stats);
}

// Wider rows: a running maximum and sum forward, then results backward from the end, which L2 still holds.
template <typename T, int WIDTH, bool CLUSTER>
__global__ void __launch_bounds__(1024)
softmax_loop(const T* x, T* y, int64 cols, int64 x_row, int64 x_col) {
  typedef Vec<T, WIDTH> V;
  constexpr int VECS = WIDTH > 1 ? 4 : 8;
  const Team<CLUSTER> team;
  const V* in = reinterpret_cast<const V*>(x) + team.row() * x_row;
  V* out = reinterpret_cast<V*>(y) + team.row() * cols;
  const int64 stride = (int64)VECS * team.step();
  SoftmaxShare<T, WIDTH, VECS, int64> share;
  Stats stats = Stats::nothing();
  int64 at = team.first();
  for (; at < cols; at += stride) {
    share.load(in, x_col, at, team.step(), cols, -INF);
    stats = stats_of<1>(share, stats);
  }
  stats = team.merge_all(stats);
  for (at -= stride; at >= 0; at -= stride) {
    share.load(in, x_col, at, team.step(), cols, -INF);
    share.store(out, at, team.step(), cols, stats);
  }
}

// The gradient of x is y·(dy - Σ dy·y).
template <typename T, int WIDTH, int VECS, typename Index>
struct GradientShare {
  typedef Vec<T, WIDTH> V;
  Share<T, WIDTH, VECS, Index> dy, y;

  __device__ __forceinline__ void load(const V* from_dy, int64 dy_col, const V* from_y, Index first, Index step,
                                       Index cols) {
    dy.load(from_dy, dy_col, first, step, cols, 0.0f);
    y.load(from_y, 1, first, step, cols, 0.0f);
  }

  __device__ __forceinline__ Sums<1> sum(Sums<1> s) const {
#pragma unroll
    for (int i = 0; i < VECS; i++)
#pragma unroll
      for (int k = 0; k < WIDTH; k++) s.of[0] += dy.v[i][k] * y.v[i][k];
    return s;
  }

  __device__ __forceinline__ void store(V* dx, Index first, Index step, Index cols, Sums<1> row) const {
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
      V out;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) out.set(k, y.v[i][k] * (dy.v[i][k] - row.of[0]));
      if (at < cols) __stcs(&dx[at].raw, out.raw);
    }
  }
};

// dy is [rows, cols] with strides (dy_row, dy_col); y and dx are contiguous.
template <typename T, int WIDTH, int VECS, int LANES>
__global__ void __launch_bounds__(128)
softmax_backward_warp(const T* dy, const T* y, T* dx, int64 rows, int64 cols, int64 dy_row, int64 dy_col) {
  typedef Vec<T, WIDTH> V;
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int lane = threadIdx.x % LANES;
  const int width = row < rows ? cols : 0;
  GradientShare<T, WIDTH, VECS, int> share;
  share.load(reinterpret_cast<const V*>(dy) + row * dy_row, dy_col, reinterpret_cast<const V*>(y) + row * cols, lane,
             LANES, width);
  const Sums<1> sum = merge_lanes<LANES>(share.sum(Sums<1>::nothing()));
  share.store(reinterpret_cast<V*>(dx) + row * cols, lane, LANES, width, sum);
}

template <typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024)
softmax_backward_block(const T* dy, const T* y, T* dx, int64 cols, int64 dy_row, int64 dy_col) {
  typedef Vec<T, WIDTH> V;
  const Team<CLUSTER> team;
  GradientShare<T, WIDTH, VECS, int> share;
  share.load(reinterpret_cast<const V*>(dy) + team.row() * dy_row, dy_col,
             reinterpret_cast<const V*>(y) + team.row() * cols, team.first(), team.step(), cols);
  const Sums<1> sum = team.merge_all(share.sum(Sums<1>::nothing()));
  share.store(reinterpret_cast<V*>(dx) + team.row() * cols, team.first(), team.step(), cols, sum);
}

template <typename T, int WIDTH, bool CLUSTER>
__global__ void __launch_bounds__(1024)
softmax_backward_loop(const T* dy, const T* y, T* dx, int64 cols, int64 dy_row, int64 dy_col) {
  typedef Vec<T, WIDTH> V;
  constexpr int VECS = WIDTH > 1 ? 2 : 4;
  const Team<CLUSTER> team;
  const V* from_dy = reinterpret_cast<const V*>(dy) + team.row() * dy_row;
  const V* from_y = reinterpret_cast<const V*>(y) + team.row() * cols;
  V* out = reinterpret_cast<V*>(dx) + team.row() * cols;
  const int64 stride = (int64)VECS * team.step();
  GradientShare<T, WIDTH, VECS, int64> share;
  Sums<1> sum = Sums<1>::nothing();
  int64 at = team.first();
  for (; at < cols; at += stride) {
    share.load(from_dy, dy_col, from_y, at, team.step(), cols);
    sum = share.sum(sum);
  }
  sum = team.merge_all(sum);
  for (at -= stride; at >= 0; at -= stride) {
    share.load(from_dy, dy_col, from_y, at, team.step(), cols);
    share.store(out, at, team.step(), cols, sum);
  }
}
