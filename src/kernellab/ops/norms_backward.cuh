// The backward pass of norms; norms.cuh says what its kernels are given.
//
// The gradients of weight and bias are sums over rows. A thread adds them up for the columns it takes, so these have to be
// the same in all its rows: where rows are not ALIGNED, the distance from one of its rows to the next is a multiple of
// WIDTH, after which rows start at the same offset again.
#pragma once

#include "teams.cuh"

// A thread's share of a row in backward: dy and x.
template <class Norm, typename T, int WIDTH, int VECS, typename Index>
struct NormGradientShare {
  typedef Vec<T, WIDTH> V;
  typedef Sums<Norm::CENTRED ? 2 : 1> Totals;
  Share<T, WIDTH, VECS, Index> dy, x;

  __device__ __forceinline__ void load(const T* from_dy, int64 dy_col, const T* from_x, int64 x_col,
                                       const Part<Index>& part) {
    dy.load(from_dy, dy_col, part, 0.0f);
    x.load(from_x, x_col, part, 0.0f);
  }

  __device__ static Totals nothing() { return Totals::nothing(); }

  // The weights of access i.
  __device__ __forceinline__ static V weights(const T* weight, int64 w_row, const Part<Index>& part, int i) {
    const Index at = part.first + i * part.step;
    return weight && at < part.end ? reinterpret_cast<const V*>(weight + part.from * w_row)[at] : V::filled(1.0f);
  }

  // Adds g·normal and, for a norm that is centred, g to `sums`, and each element's part of the gradients of weight and
  // bias to `collected`, from element `place` on. Elements beyond the row have dy = 0.
  template <class Collected>
  __device__ __forceinline__ Totals sums(Totals sums, float mean, float rstd, const T* weight, int64 w_row,
                                         const Part<Index>& part, Collected& collected, int place) const {
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const V w = weights(weight, w_row, part, i);
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float d = dy.v[i][k], normal = Norm::normalized(x.v[i][k], mean, rstd), g = d * w[k];
        sums.of[0] += g * normal;
        if constexpr (Norm::CENTRED) sums.of[1] += g;
        collected.add(place + i * WIDTH + k, d * normal, d);
      }
    }
    return sums;
  }

  __device__ __forceinline__ void store(T* dx, const T* up, int64 up_col, const T* weight, int64 w_row,
                                        const Part<Index>& part, float mean, float rstd, Totals means) const {
    V* const to = reinterpret_cast<V*>(dx + part.from);
    const V* const ups = reinterpret_cast<const V*>(up + part.from);
    const float mean_g = Norm::CENTRED ? means.of[Norm::CENTRED] : 0.0f;
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
      if (at >= part.end) continue;
      const V w = weights(weight, w_row, part, i);
      V u, out;
      if (up) u = WIDTH > 1 ? ups[at] : ups[at * up_col];
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float normal = Norm::normalized(x.v[i][k], mean, rstd);
        float value = Norm::gradient(dy.v[i][k] * w[k], normal, mean_g, means.of[0], rstd);
        if (up) value += u[k];
        out.set(k, value);
      }
      to[at] = out;
    }
  }
};

#define BACKWARD_PARAMETERS                                                                                     \
  const T *dy, int64 dy_row, int64 dy_col, const T *x, int64 x_row, int64 x_col, const T *up, int64 up_row,     \
      int64 up_col, const T *weight, int64 w_row, const float *means, const float *rstds, T *dx, float *dw,     \
      float *db, int64 rows, int64 cols

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

// Narrow rows, LANES threads each: blocks stay until no row is left. dw and db are [blocks, cols]: a block's sums.
// Dynamic shared memory: that of Collected.
template <class Norm, typename T, int WIDTH, bool ALIGNED, int VECS, int LANES>
__global__ void __launch_bounds__(128, 4) norm_backward_warp(BACKWARD_PARAMETERS) {
  static_assert(ALIGNED || LANES == 32, "a thread has at most one element before or after the accesses");
  constexpr int MAIN = VECS * WIDTH, ELEMENTS = MAIN + !ALIGNED, GROUPS = 128 / LANES;
  const Lanes<LANES> lanes;
  const int group = threadIdx.x / LANES;
  const int64 first_row = (int64)blockIdx.x * GROUPS;
  const float per_element = 1.0f / (float)cols;
  extern __shared__ float shared[];
  Collected<Norm, ELEMENTS> collected(shared);

  for (int64 base = first_row; base < rows; base += (int64)gridDim.x * GROUPS) {
    const int64 row = base + group;
    const bool exists = row < rows;  // threads beyond the last row stay for the shuffles
    const T *const from_dy = dy + row * dy_row, *const from_x = x + row * x_row;
    const T* const from_up = up ? up + row * up_row : nullptr;
    T* const to = dx + row * cols;
    const Peeled<T, WIDTH, ALIGNED> peeled(from_dy, exists ? cols : 0);
    const Part<int> part = peeled.part(lanes.first(), LANES), extra_part = peeled.extra_part(lanes.first());
    NormGradientShare<Norm, T, WIDTH, VECS, int> share;
    NormGradientShare<Norm, T, 1, 1, int> extra;
    share.load(from_dy, dy_col, from_x, x_col, part);
    if constexpr (!ALIGNED) extra.load(from_dy, 1, from_x, 1, extra_part);
    const float rstd = exists ? rstds[row] : 0.0f, mean = Norm::CENTRED && exists ? means[row] : 0.0f;
    auto sums = share.sums(share.nothing(), mean, rstd, weight, w_row, part, collected, 0);
    if constexpr (!ALIGNED) sums = extra.sums(sums, mean, rstd, weight, w_row, extra_part, collected, MAIN);
    sums = scale(lanes.merge_all(sums, 0), per_element);
    share.store(to, from_up, up_col, weight, w_row, part, mean, rstd, sums);
    if constexpr (!ALIGNED) extra.store(to, from_up, 1, weight, w_row, extra_part, mean, rstd, sums);
  }

  __syncthreads();
  for (int64 col = threadIdx.x; col < cols; col += blockDim.x)
    for (int kind = 0; kind < collected.KINDS; kind++) {
      float sum = 0.0f;  // over the groups in order, so that it is always the same
      for (int other = 0; other < GROUPS; other++) {
        const Peeled<T, WIDTH, ALIGNED> peeled(dy + (first_row + other) * dy_row, cols);
        const int64 inside = col - peeled.head, access = inside / WIDTH;
        const bool in_access = inside >= 0 && access < peeled.accesses;
        const int lane = in_access ? access % LANES : inside < 0 ? col : col - peeled.accesses * WIDTH;
        const int element = in_access ? access / LANES * WIDTH + inside % WIDTH : MAIN;
        sum += collected.at(other * LANES + lane, kind, element);
      }
      float* const to = kind ? db : dw;
      if (to) to[blockIdx.x * cols + col] = sum;
    }
}

// Rows that fit a team's registers: the same with teams. dw and db are [teams, cols]: a team's sums.
template <class Norm, typename T, int WIDTH, bool ALIGNED, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024) norm_backward_block(BACKWARD_PARAMETERS) {
  constexpr int MAIN = VECS * WIDTH, ELEMENTS = MAIN + !ALIGNED;
  extern __shared__ float shared[];
  Collected<Norm, ELEMENTS> collected(shared);
  const Team<CLUSTER> team;
  const Peeled<T, WIDTH, ALIGNED> peeled(dy + team.row() * dy_row, cols);  // the same for all rows of the team
  const Part<int> part = peeled.part(team.first(), team.step()), extra_part = peeled.extra_part(team.first());
  const float per_element = 1.0f / (float)cols;

  unsigned turn = 0;
  // Rows are fewer than 2³¹, as a grid is: forward has one block or more for each.
  for (unsigned row = team.row(); row < (unsigned)rows; row += team.teams(), turn++) {
    const T *const from_dy = dy + row * dy_row, *const from_x = x + row * x_row;
    NormGradientShare<Norm, T, WIDTH, VECS, int> share;
    NormGradientShare<Norm, T, 1, 1, int> extra;
    share.load(from_dy, dy_col, from_x, x_col, part);
    if constexpr (!ALIGNED) extra.load(from_dy, 1, from_x, 1, extra_part);
    const float rstd = rstds[row], mean = Norm::CENTRED ? means[row] : 0.0f;
    auto sums = share.sums(share.nothing(), mean, rstd, weight, w_row, part, collected, 0);
    if constexpr (!ALIGNED) sums = extra.sums(sums, mean, rstd, weight, w_row, extra_part, collected, MAIN);
    sums = scale(team.merge_all(sums, turn), per_element);
    const T* const from_up = up ? up + row * up_row : nullptr;
    T* const to = dx + row * cols;
    share.store(to, from_up, up_col, weight, w_row, part, mean, rstd, sums);
    if constexpr (!ALIGNED) extra.store(to, from_up, 1, weight, w_row, extra_part, mean, rstd, sums);
  }

  const auto write = [&](int64 col, int element) {
    const int64 to = team.row() * cols + col;
    if (dw) dw[to] = collected.at(threadIdx.x, 0, element);
    if constexpr (Norm::CENTRED)
      if (db) db[to] = collected.at(threadIdx.x, 1, element);
  };
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int at = part.first + i * part.step;
    if (at >= part.end) continue;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) write(part.from + (int64)at * WIDTH + k, i * WIDTH + k);
  }
  if constexpr (!ALIGNED)
    if (extra_part.first < extra_part.end) write(extra_part.first, MAIN);
}

// Wider rows: dx only, one block per row; the row is read a second time, backward from the end, which L2 still holds.
template <class Norm, typename T, int WIDTH, bool ALIGNED>
__global__ void __launch_bounds__(1024) norm_backward_loop(BACKWARD_PARAMETERS) {
  constexpr int VECS = WIDTH > 1 ? 1 : 4;
  const Team<false> team;
  const int64 row = team.row(), step = team.step(), stride = VECS * step;
  dy += row * dy_row, x += row * x_row, dx += row * cols;
  if (up) up += row * up_row;
  const Peeled<T, WIDTH, ALIGNED> peeled(dy, cols);
  Part<int64> part = peeled.part((int64)team.first(), step);
  const Part<int64> extra_part = peeled.extra_part((int64)team.first());
  const float rstd = rstds[row], mean = Norm::CENTRED ? means[row] : 0.0f;
  NormGradientShare<Norm, T, WIDTH, VECS, int64> share;
  NormGradientShare<Norm, T, 1, 1, int64> extra;
  auto sums = share.nothing();
  NotCollected nothing;
  if constexpr (!ALIGNED) {
    extra.load(dy, 1, x, 1, extra_part);
    sums = extra.sums(sums, mean, rstd, weight, w_row, extra_part, nothing, 0);
  }
  for (; part.first < part.end; part.first += stride) {
    share.load(dy, dy_col, x, x_col, part);
    sums = share.sums(sums, mean, rstd, weight, w_row, part, nothing, 0);
  }
  sums = scale(team.merge_all(sums, 0), 1.0f / (float)cols);
  for (part.first -= stride; part.first >= 0; part.first -= stride) {
    share.load(dy, dy_col, x, x_col, part);
    share.store(dx, up, up_col, weight, w_row, part, mean, rstd, sums);
  }
  if constexpr (!ALIGNED) {
    extra.load(dy, 1, x, 1, extra_part);
    extra.store(dx, up, 1, weight, w_row, extra_part, mean, rstd, sums);
  }
}

// Columns from `col` on, WIDTH of them: their gradients over every gridDim.y-th row, LOADS rows at a time.
template <class Norm, typename T, int WIDTH>
__device__ __forceinline__ void add_columns(int64 col, const T* dy, int64 dy_row, int64 dy_col, const T* x, int64 x_row,
                                            int64 x_col, const float* means, const float* rstds, float* dw, float* db,
                                            int64 rows, int64 cols) {
  typedef Vec<T, WIDTH> V;
  constexpr int LOADS = 4;
  dy += col * dy_col, x += col * x_col;
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
        d[j] = *reinterpret_cast<const V*>(dy + row * dy_row);
        values[j] = *reinterpret_cast<const V*>(x + row * x_row);
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
  const int64 to = blockIdx.y * cols + col;
#pragma unroll
  for (int k = 0; k < WIDTH; k++) {
    if (dw) dw[to + k] = of_weight[k];
    if constexpr (Norm::CENTRED)
      if (db) db[to + k] = of_bias[k];
  }
}

// The gradients of weight and bias of wider rows: a thread has one access of columns, or one extra column. dw and db are
// [gridDim.y, cols].
template <class Norm, typename T, int WIDTH, bool ALIGNED>
__global__ void __launch_bounds__(128)
norm_columns(const T* dy, int64 dy_row, int64 dy_col, const T* x, int64 x_row, int64 x_col, const float* means,
             const float* rstds, float* dw, float* db, int64 rows, int64 cols) {
  const Peeled<T, WIDTH, ALIGNED> peeled(dy + blockIdx.y * dy_row, cols);  // the same for all rows of the thread
  const int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x, extra = at - peeled.accesses;
  if (at < peeled.accesses) {
    add_columns<Norm, T, WIDTH>(peeled.head + at * WIDTH, dy, dy_row, dy_col, x, x_row, x_col, means, rstds, dw, db,
                                rows, cols);
  } else if constexpr (!ALIGNED) {
    if (extra < peeled.extras)
      add_columns<Norm, T, 1>(peeled.extra(extra), dy, dy_row, 1, x, x_row, 1, means, rstds, dw, db, rows, cols);
  }
}

// The gradients of weight (blockIdx.y is 0) and bias (1) from their partial sums [count, cols]. 32 × 16 threads: each adds
// up every 16th partial sum of a column, and the first of a column those of the others.
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
