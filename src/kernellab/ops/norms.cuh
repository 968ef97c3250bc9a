// Norms over the last dim: how rows are moved, and the sums over them. The op's Norm says what is computed:
// Norm::CENTRED, whether the mean is subtracted; Norm::normalized(x, mean, rstd); and Norm::gradient(g, normal, mean_g,
// mean_product, rstd), the gradient of x from that of the normalized values, g, and the means of g and of g·normal.
//
// In every kernel x is [rows, cols] with strides (x_row, x_col), as are the residual, dy and `up`, the gradient of the
// sum of x and the residual; y, total and dx are contiguous, weight and bias [cols]. All are counted in accesses of
// WIDTH elements; WIDTH > 1 only if rows are aligned to it and all column strides are 1. mean and rstd are [rows] in
// fp32. A null pointer stands for a parameter, a mean or a gradient that is not there.
#pragma once

#include "teams.cuh"

template <class Team>
__device__ __forceinline__ float add_all(const Team& team, float value, unsigned turn) {
  return team.merge_all(Sums<1>{{value}}, turn).of[0];
}

// A thread's share of a row that is normalized.
template <class Norm, typename T, int WIDTH, int VECS, typename Index>
struct NormShare : Share<T, WIDTH, VECS, Index> {
  typedef Vec<T, WIDTH> V;
  using Share<T, WIDTH, VECS, Index>::v;

  // x + residual, rounded as it is stored in `total`.
  __device__ __forceinline__ void add(const V* residual, int64 r_col, V* total, Index first, Index step, Index cols) {
    Share<T, WIDTH, VECS, Index> r;
    r.load(residual, r_col, first, step, cols, 0.0f);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) v[i].set(k, v[i][k] + r.v[i][k]);
      if (at < cols) total[at] = v[i];
    }
  }

  __device__ __forceinline__ float sum() const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECS; i++)
#pragma unroll
      for (int k = 0; k < WIDTH; k++) sum += v[i][k];
    return sum;
  }

  // Of the distances from the mean; elements beyond the row have none.
  __device__ __forceinline__ float squares(float mean, Index first, Index step, Index cols) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const bool inside = !Norm::CENTRED || first + i * step < cols;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float distance = Norm::CENTRED ? v[i][k] - mean : v[i][k];
        sum += inside ? distance * distance : 0.0f;
      }
    }
    return sum;
  }

  __device__ __forceinline__ void store(V* y, const V* weight, const V* bias, Index first, Index step, Index cols,
                                        float mean, float rstd) const {
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
      if (at >= cols) continue;
      V w, b, out;
      if (weight) w = weight[at];
      if (bias) b = bias[at];
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        float value = Norm::normalized(v[i][k], mean, rstd);
        if (weight) value *= w[k];
        if (bias) value += b[k];
        out.set(k, value);
      }
      __stcs(&y[at].raw, out.raw);  // streaming: nothing here reads it again
    }
  }
};

// One row, held in registers: the variance is that of distances from the mean, computed in a second walk over them.
template <class Norm, bool ADD, typename T, int WIDTH, int VECS, class Team>
__device__ __forceinline__ void normalize_row(
    const Team& team, const T* x, int64 x_row, int64 x_col, const T* residual, int64 r_row, int64 r_col,
    const T* weight, const T* bias, T* y, T* total, float* means, float* rstds, int64 row, int64 cols, int width,
    double eps) {
  typedef Vec<T, WIDTH> V;
  const int first = team.first(), step = team.step();
  NormShare<Norm, T, WIDTH, VECS, int> share;
  share.load(reinterpret_cast<const V*>(x) + row * x_row, x_col, first, step, width, 0.0f);
  if constexpr (ADD)
    share.add(reinterpret_cast<const V*>(residual) + row * r_row, r_col, reinterpret_cast<V*>(total) + row * cols,
              first, step, width);
  const float count = (float)(cols * WIDTH);
  float mean = 0.0f;
  if constexpr (Norm::CENTRED) mean = add_all(team, share.sum(), 0) / count;
  const float squares = add_all(team, share.squares(mean, first, step, width), Norm::CENTRED);
  const float rstd = rsqrtf(squares / count + (float)eps);
  if (first == 0 && width > 0) {
    if constexpr (Norm::CENTRED) means[row] = mean;
    rstds[row] = rstd;
  }
  share.store(reinterpret_cast<V*>(y) + row * cols, reinterpret_cast<const V*>(weight),
              reinterpret_cast<const V*>(bias), first, step, width, mean, rstd);
}

#define FORWARD_PARAMETERS                                                                                     \
  const T *x, int64 x_row, int64 x_col, const T *residual, int64 r_row, int64 r_col, const T *weight,          \
      const T *bias, T *y, T *total, float *means, float *rstds, int64 rows, int64 cols, double eps

// Narrow rows: LANES neighbouring threads per row, 32 / LANES rows per warp; no shared memory, no barrier.
template <class Norm, bool ADD, typename T, int WIDTH, int VECS, int LANES>
__global__ void __launch_bounds__(128) norm_warp(FORWARD_PARAMETERS) {
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int width = row < rows ? cols : 0;  // threads beyond the last row stay for the shuffles
  normalize_row<Norm, ADD, T, WIDTH, VECS>(Lanes<LANES>(), x, x_row, x_col, residual, r_row, r_col, weight, bias, y,
                                           total, means, rstds, row, cols, width, eps);
}

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS >= cols.
template <class Norm, bool ADD, typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024) norm_block(FORWARD_PARAMETERS) {
  const Team<CLUSTER> team;
  normalize_row<Norm, ADD, T, WIDTH, VECS>(team, x, x_row, x_col, residual, r_row, r_col, weight, bias, y, total, means,
                                           rstds, team.row(), cols, cols, eps);
}

// Wider rows: each thread's mean and squares in one pass, then results backward from the end, which L2 still holds.
template <class Norm, bool ADD, typename T, int WIDTH, bool CLUSTER>
__global__ void __launch_bounds__(1024) norm_loop(FORWARD_PARAMETERS) {
  typedef Vec<T, WIDTH> V;
  constexpr int VECS = WIDTH > 1 ? 2 : 4;
  const Team<CLUSTER> team;
  const int64 row = team.row(), step = team.step(), stride = VECS * step;
  const V* in = reinterpret_cast<const V*>(x) + row * x_row;
  V* const sums = reinterpret_cast<V*>(total) + row * cols;
  NormShare<Norm, T, WIDTH, VECS, int64> share;
  float seen = 0.0f, mean = 0.0f, squares = 0.0f;
  int64 at = team.first();
  for (; at < cols; at += stride) {
    share.load(in, x_col, at, step, cols, 0.0f);
    if constexpr (ADD)
      share.add(reinterpret_cast<const V*>(residual) + row * r_row, r_col, sums, at, step, cols);
    if constexpr (Norm::CENTRED) {
      // Merges the means and squares of two sets: no difference of large sums is taken.
      const int64 left = (cols - at + step - 1) / step;
      const float here = WIDTH * (float)(left < VECS ? left : VECS), both = seen + here;
      const float mean_here = share.sum() / here, apart = mean_here - mean;
      // In this order the first set, with seen = 0, adds 0 also where apart² would overflow.
      squares += share.squares(mean_here, at, step, cols) + apart * (seen * here / both) * apart;
      mean += apart * (here / both);
      seen = both;
    } else {
      squares += share.squares(0.0f, at, step, cols);
    }
  }
  const float count = (float)(cols * WIDTH);
  float row_mean = 0.0f;
  if constexpr (Norm::CENTRED) {
    row_mean = add_all(team, mean * seen, 0) / count;
    squares += seen * (mean - row_mean) * (mean - row_mean);
  }
  const float rstd = rsqrtf(add_all(team, squares, Norm::CENTRED) / count + (float)eps);
  if (team.first() == 0) {
    if constexpr (Norm::CENTRED) means[row] = row_mean;
    rstds[row] = rstd;
  }
  if constexpr (ADD) in = sums, x_col = 1;  // each thread reads what it wrote itself
  for (at -= stride; at >= 0; at -= stride) {
    share.load(in, x_col, at, step, cols, 0.0f);
    share.store(reinterpret_cast<V*>(y) + row * cols, reinterpret_cast<const V*>(weight),
                reinterpret_cast<const V*>(bias), at, step, cols, row_mean, rstd);
  }
}

// Backward ------------------------------------------------------------------------------------------------------

// A thread's share of a row in backward: dy and x.
template <class Norm, typename T, int WIDTH, int VECS, typename Index>
struct NormGradientShare {
  typedef Vec<T, WIDTH> V;
  typedef Sums<Norm::CENTRED ? 2 : 1> Totals;
  Share<T, WIDTH, VECS, Index> dy, x;

  __device__ __forceinline__ void load(const V* from_dy, int64 dy_col, const V* from_x, int64 x_col, Index first,
                                       Index step, Index cols) {
    dy.load(from_dy, dy_col, first, step, cols, 0.0f);
    x.load(from_x, x_col, first, step, cols, 0.0f);
  }

  __device__ static Totals nothing() { return Totals::nothing(); }

  // Adds g·normal and, for a norm that is centred, g to `sums`, and each element's part of the gradients of weight and
  // bias to `collected`. weight_at(i) is the weight of access i. Elements beyond the row have dy = 0.
  template <class WeightAt, class Collected>
  __device__ __forceinline__ Totals sums(Totals sums, float mean, float rstd, WeightAt weight_at,
                                          Collected& collected) const {
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const V w = weight_at(i);
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float d = dy.v[i][k], normal = Norm::normalized(x.v[i][k], mean, rstd), g = d * w[k];
        sums.of[0] += g * normal;
        if constexpr (Norm::CENTRED) sums.of[1] += g;
        collected.add(i * WIDTH + k, d * normal, d);
      }
    }
    return sums;
  }

  template <class WeightAt>
  __device__ __forceinline__ void store(V* dx, const V* up, int64 up_col, Index first, Index step, Index cols,
                                        float mean, float rstd, WeightAt weight_at, Totals means) const {
    const float mean_g = Norm::CENTRED ? means.of[Norm::CENTRED] : 0.0f;
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
      if (at >= cols) continue;
      const V w = weight_at(i);
      V u, out;
      if (up) u = WIDTH > 1 ? up[at] : up[at * up_col];
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float normal = Norm::normalized(x.v[i][k], mean, rstd);
        float value = Norm::gradient(dy.v[i][k] * w[k], normal, mean_g, means.of[0], rstd);
        if (up) value += u[k];
        out.set(k, value);
      }
      __stcs(&dx[at].raw, out.raw);
    }
  }
};

#define BACKWARD_PARAMETERS                                                                                     \
  const T *dy, int64 dy_row, int64 dy_col, const T *x, int64 x_row, int64 x_col, const T *up, int64 up_row,     \
      int64 up_col, const T *weight, const float *means, const float *rstds, T *dx, float *dw, float *db,       \
      int64 rows, int64 cols

template <typename T, int WIDTH>
__device__ __forceinline__ Vec<T, WIDTH> ones() {
  Vec<T, WIDTH> v;
#pragma unroll
  for (int k = 0; k < WIDTH; k++) v.set(k, 1.0f);
  return v;
}

template <int N>
__device__ __forceinline__ Sums<N> scale(Sums<N> sums, float factor) {
#pragma unroll
  for (int i = 0; i < N; i++) sums.of[i] *= factor;
  return sums;
}

// The gradients of weight and bias that each thread adds up for its columns, over its rows. They are in shared memory,
// because the rows need the registers; no thread reads another's before the rows are done. Neighbouring lanes are
// neighbours, and elements a constant apart: another distance would need an address for each of them.
template <class Norm, int ELEMENTS>
struct Collected {
  static constexpr int KINDS = Norm::CENTRED ? 2 : 1, PER_WARP = 32 * ELEMENTS * KINDS;
  float *all, *mine;

  __device__ __forceinline__ explicit Collected(float* shared) : all(shared), mine(&at(threadIdx.x, 0, 0)) {
#pragma unroll
    for (int e = 0; e < ELEMENTS * KINDS; e++) mine[32 * e] = 0.0f;
  }
  __device__ __forceinline__ void add(int element, float to_weight, float to_bias) {
    mine[32 * element] += to_weight;
    if constexpr (Norm::CENTRED) mine[32 * (ELEMENTS + element)] += to_bias;
  }
  // Kind 0 is of the weight, 1 of the bias.
  __device__ __forceinline__ float& at(int thread, int kind, int element) const {
    return all[thread / 32 * PER_WARP + 32 * (kind * ELEMENTS + element) + thread % 32];
  }
};

struct NotCollected {
  __device__ __forceinline__ void add(int, float, float) {}
};

// Narrow rows, LANES threads each: blocks stay until no row is left. dw and db are [blocks, cols · WIDTH]: a block's
// sums. Dynamic shared memory: that of Collected.
template <class Norm, typename T, int WIDTH, int VECS, int LANES>
__global__ void __launch_bounds__(128, 4) norm_backward_warp(BACKWARD_PARAMETERS) {
  typedef Vec<T, WIDTH> V;
  constexpr int ELEMENTS = VECS * WIDTH, GROUPS = 128 / LANES;
  const Lanes<LANES> lanes;
  const int first = lanes.first(), group = threadIdx.x / LANES;
  const float per_element = 1.0f / (float)(cols * WIDTH);
  extern __shared__ float shared[];
  Collected<Norm, ELEMENTS> collected(shared);
  const auto weight_at = [&](int i) {
    const int at = first + i * LANES;
    return weight && at < cols ? reinterpret_cast<const V*>(weight)[at] : ones<T, WIDTH>();
  };

  for (int64 base = (int64)blockIdx.x * GROUPS; base < rows; base += (int64)gridDim.x * GROUPS) {
    const int64 row = base + group;
    const int width = row < rows ? cols : 0;  // threads beyond the last row stay for the shuffles
    NormGradientShare<Norm, T, WIDTH, VECS, int> share;
    share.load(reinterpret_cast<const V*>(dy) + row * dy_row, dy_col, reinterpret_cast<const V*>(x) + row * x_row,
               x_col, first, LANES, width);
    const float rstd = width ? rstds[row] : 0.0f, mean = Norm::CENTRED && width ? means[row] : 0.0f;
    auto sums = share.sums(share.nothing(), mean, rstd, weight_at, collected);
    sums = scale(lanes.merge_all(sums, 0), per_element);
    share.store(reinterpret_cast<V*>(dx) + row * cols, up ? reinterpret_cast<const V*>(up) + row * up_row : nullptr,
                up_col, first, LANES, width, mean, rstd, weight_at, sums);
  }

  __syncthreads();
  for (int slot = threadIdx.x; slot < LANES * ELEMENTS; slot += blockDim.x) {
    const int lane = slot % LANES, element = slot / LANES, access = lane + element / WIDTH * LANES;
    if (access >= cols) continue;
    const int64 to = ((int64)blockIdx.x * cols + access) * WIDTH + element % WIDTH;
    for (int kind = 0; kind < collected.KINDS; kind++) {
      float sum = 0.0f;  // over the groups in order, so that it is always the same
      for (int other = 0; other < GROUPS; other++) sum += collected.at(other * LANES + lane, kind, element);
      float* const sums = kind ? db : dw;
      if (sums) sums[to] = sum;
    }
  }
}

// Rows that fit a team's registers: the same with teams. dw and db are [teams, cols · WIDTH]: a team's sums.
template <class Norm, typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024) norm_backward_block(BACKWARD_PARAMETERS) {
  typedef Vec<T, WIDTH> V;
  constexpr int ELEMENTS = VECS * WIDTH;
  extern __shared__ float shared[];
  Collected<Norm, ELEMENTS> collected(shared);
  const Team<CLUSTER> team;
  const int first = team.first(), step = team.step(), width = cols;
  const float per_element = 1.0f / (float)(cols * WIDTH);
  const auto weight_at = [&](int i) {
    const int at = first + i * step;
    return weight && at < width ? reinterpret_cast<const V*>(weight)[at] : ones<T, WIDTH>();
  };

  unsigned turn = 0;
  // Rows are fewer than 2³¹, as a grid is: forward has one block or more for each.
  for (unsigned row = team.row(); row < (unsigned)rows; row += team.teams(), turn++) {
    NormGradientShare<Norm, T, WIDTH, VECS, int> share;
    share.load(reinterpret_cast<const V*>(dy) + row * dy_row, dy_col, reinterpret_cast<const V*>(x) + row * x_row,
               x_col, first, step, width);
    const float rstd = rstds[row], mean = Norm::CENTRED ? means[row] : 0.0f;
    auto sums = share.sums(share.nothing(), mean, rstd, weight_at, collected);
    sums = scale(team.merge_all(sums, turn), per_element);
    share.store(reinterpret_cast<V*>(dx) + row * cols, up ? reinterpret_cast<const V*>(up) + row * up_row : nullptr,
                up_col, first, step, width, mean, rstd, weight_at, sums);
  }

#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int at = first + i * step;
    if (at >= width) continue;
    const int64 to = (team.row() * cols + at) * WIDTH;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
      if (dw) dw[to + k] = collected.at(threadIdx.x, 0, i * WIDTH + k);
      if constexpr (Norm::CENTRED)
        if (db) db[to + k] = collected.at(threadIdx.x, 1, i * WIDTH + k);
    }
  }
}

// Wider rows: dx only, one block per row; the row is read a second time, backward from the end, which L2 still holds.
template <class Norm, typename T, int WIDTH>
__global__ void __launch_bounds__(1024) norm_backward_loop(BACKWARD_PARAMETERS) {
  typedef Vec<T, WIDTH> V;
  constexpr int VECS = WIDTH > 1 ? 1 : 4;
  const Team<false> team;
  const int64 row = team.row(), step = team.step(), stride = VECS * step;
  const V *const from_dy = reinterpret_cast<const V*>(dy) + row * dy_row;
  const V *const from_x = reinterpret_cast<const V*>(x) + row * x_row;
  const V *const from_up = up ? reinterpret_cast<const V*>(up) + row * up_row : nullptr;
  const float rstd = rstds[row], mean = Norm::CENTRED ? means[row] : 0.0f;
  NormGradientShare<Norm, T, WIDTH, VECS, int64> share;
  auto sums = share.nothing();
  NotCollected nothing;
  int64 at = team.first();
  const auto weight_at = [&](int i) {
    const int64 access = at + i * step;
    return weight && access < cols ? reinterpret_cast<const V*>(weight)[access] : ones<T, WIDTH>();
  };
  for (; at < cols; at += stride) {
    share.load(from_dy, dy_col, from_x, x_col, at, step, cols);
    sums = share.sums(sums, mean, rstd, weight_at, nothing);
  }
  sums = scale(team.merge_all(sums, 0), 1.0f / (float)(cols * WIDTH));
  for (at -= stride; at >= 0; at -= stride) {
    share.load(from_dy, dy_col, from_x, x_col, at, step, cols);
    share.store(reinterpret_cast<V*>(dx) + row * cols, from_up, up_col, at, step, cols, mean, rstd, weight_at, sums);
  }
}

// The gradients of weight and bias of wider rows: a thread has one access of columns, and of the rows every
// gridDim.y-th, LOADS of them at a time. dw and db are [gridDim.y, cols · WIDTH].
template <class Norm, typename T, int WIDTH>
__global__ void __launch_bounds__(128)
norm_columns(const T* dy, int64 dy_row, int64 dy_col, const T* x, int64 x_row, int64 x_col, const float* means,
             const float* rstds, float* dw, float* db, int64 rows, int64 cols) {
  typedef Vec<T, WIDTH> V;
  constexpr int LOADS = 4;
  const int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= cols) return;
  const V *const from_dy = reinterpret_cast<const V*>(dy) + at * dy_col;
  const V *const from_x = reinterpret_cast<const V*>(x) + at * x_col;
  float of_weight[WIDTH], of_bias[WIDTH];
#pragma unroll
  for (int k = 0; k < WIDTH; k++) of_weight[k] = of_bias[k] = 0.0f;
  for (int64 base = blockIdx.y; base < rows; base += (int64)LOADS * gridDim.y) {
    V d[LOADS], values[LOADS];
    float mean[LOADS], rstd[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; j++) {
      const int64 row = base + (int64)j * gridDim.y;
      mean[j] = rstd[j] = 0.0f;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) d[j].set(k, 0.0f), values[j].set(k, 0.0f);
      if (row < rows) {
        d[j] = from_dy[row * dy_row];
        values[j] = from_x[row * x_row];
        rstd[j] = rstds[row];
        if constexpr (Norm::CENTRED) mean[j] = means[row];
      }
    }
#pragma unroll
    for (int j = 0; j < LOADS; j++)
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        of_weight[k] += d[j][k] * Norm::normalized(values[j][k], mean[j], rstd[j]);
        if constexpr (Norm::CENTRED) of_bias[k] += d[j][k];
      }
  }
  const int64 to = (blockIdx.y * cols + at) * WIDTH;
#pragma unroll
  for (int k = 0; k < WIDTH; k++) {
    if (dw) dw[to + k] = of_weight[k];
    if constexpr (Norm::CENTRED)
      if (db) db[to + k] = of_bias[k];
  }
}

// The gradients of weight (blockIdx.y is 0) and bias (1) from their partial sums [count, cols], here counted in
// elements. 32 × 16 threads: each adds up every 16th partial sum of a column, and the first of a column those of the
// others.
template <typename T>
__global__ void __launch_bounds__(512)
norm_add_up(const float* from_weight, const float* from_bias, T* dweight, T* dbias, int64 count, int64 cols) {
  __shared__ float parts[16][32];
  const float* const from = blockIdx.y ? from_bias : from_weight;
  T* const to = blockIdx.y ? dbias : dweight;
  if (!to) return;
  const int64 col = (int64)blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (col < cols)
#pragma unroll 4
    for (int64 i = threadIdx.y; i < count; i += 16) sum += from[i * cols + col];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
#pragma unroll
  for (int i = 1; i < 16; i++) sum += parts[i][threadIdx.x];
  to[col] = from_float<T>(sum);
}
