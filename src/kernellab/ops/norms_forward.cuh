// The forward pass of norms; norms.cuh says what its kernels are given.
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
  __device__ __forceinline__ void add(const T* residual, int64 r_col, T* total, const Part<Index>& part) {
    V* const to = reinterpret_cast<V*>(total + part.from);
    Share<T, WIDTH, VECS, Index> r;
    r.load(residual, r_col, part, 0.0f);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) v[i].set(k, v[i][k] + r.v[i][k]);
      if (at < part.end) to[at] = v[i];
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
  __device__ __forceinline__ float squares(float mean, const Part<Index>& part) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const bool inside = !Norm::CENTRED || part.first + i * part.step < part.end;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float distance = Norm::CENTRED ? v[i][k] - mean : v[i][k];
        sum += inside ? distance * distance : 0.0f;
      }
    }
    return sum;
  }

  __device__ __forceinline__ void store(T* y, const T* weight, const T* bias, int64 w_row, const Part<Index>& part,
                                        float mean, float rstd) const {
    V* const to = reinterpret_cast<V*>(y + part.from);
    const V* const weights = reinterpret_cast<const V*>(weight + part.from * w_row);
    const V* const biases = reinterpret_cast<const V*>(bias + part.from * w_row);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
      if (at >= part.end) continue;
      V w, b, out;
      if (weight) w = weights[at];
      if (bias) b = biases[at];
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        float value = Norm::normalized(v[i][k], mean, rstd);
        if (weight) value *= w[k];
        if (bias) value += b[k];
        out.set(k, value);
      }
      to[at] = out;
    }
  }
};

#define FORWARD_PARAMETERS                                                                                     \
  const T *x, int64 x_row, int64 x_col, const T *residual, int64 r_row, int64 r_col, const T *weight,          \
      const T *bias, int64 w_row, T *y, T *total, float *means, float *rstds, int64 rows, int64 cols, double eps
#define FORWARD_ARGUMENTS \
  x, x_row, x_col, residual, r_row, r_col, weight, bias, w_row, y, total, means, rstds, rows, cols, eps

// One row, held in registers: the variance is that of distances from the mean, computed in a second walk over them.
// Threads beyond the last row stay for the mergers.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, class Team>
__device__ __forceinline__ void normalize_row(const Team& team, int64 row, FORWARD_PARAMETERS) {
  const bool exists = row < rows;
  x += row * x_row, residual += row * r_row, y += row * cols, total += row * cols;
  const Peeled<T, WIDTH, ALIGNED> peeled(x, exists ? cols : 0);
  const Part<int> part = peeled.part(team.first(), team.step()), extra_part = peeled.extra_part(team.first());
  NormShare<Norm, T, WIDTH, VECS, int> share;
  NormShare<Norm, T, 1, 1, int> extra;
  share.load(x, x_col, part, 0.0f);
  if constexpr (!ALIGNED) extra.load(x, 1, extra_part, 0.0f);
  if constexpr (ADD) {
    share.add(residual, r_col, total, part);
    if constexpr (!ALIGNED) extra.add(residual, 1, total, extra_part);
  }
  const float count = (float)cols;
  float mean = 0.0f;
  if constexpr (Norm::CENTRED) {
    float sum = share.sum();
    if constexpr (!ALIGNED) sum += extra.sum();
    mean = add_all(team, sum, 0) / count;
  }
  float squares = share.squares(mean, part);
  if constexpr (!ALIGNED) squares += extra.squares(mean, extra_part);
  const float rstd = rsqrtf(add_all(team, squares, Norm::CENTRED) / count + (float)eps);
  if (team.first() == 0 && exists) {
    if constexpr (Norm::CENTRED) means[row] = mean;
    rstds[row] = rstd;
  }
  share.store(y, weight, bias, w_row, part, mean, rstd);
  if constexpr (!ALIGNED) extra.store(y, weight, bias, w_row, extra_part, mean, rstd);
}

// Narrow rows: LANES neighbouring threads per row, 32 / LANES rows per warp; no shared memory, no barrier.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, int LANES>
__global__ void __launch_bounds__(128) norm_warp(FORWARD_PARAMETERS) {
  static_assert(ALIGNED || LANES == 32, "a thread has at most one element before or after the accesses");
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  normalize_row<Norm, ADD, T, WIDTH, ALIGNED, VECS>(Lanes<LANES>(), row, FORWARD_ARGUMENTS);
}

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS · WIDTH >= cols.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024) norm_block(FORWARD_PARAMETERS) {
  const Team<CLUSTER> team;
  normalize_row<Norm, ADD, T, WIDTH, ALIGNED, VECS>(team, team.row(), FORWARD_ARGUMENTS);
}

// The mean and the sum of squared distances from it of the elements that a thread has seen.
struct Moments {
  float seen = 0.0f, mean = 0.0f, squares = 0.0f;

  // Merges the mean and the squares of other elements: no difference of large sums is taken.
  __device__ __forceinline__ void merge(float others, float their_mean, float their_squares) {
    const float both = seen + others, apart = their_mean - mean;
    // In this order the first set, with seen = 0, adds 0 also where apart² would overflow.
    squares += their_squares + apart * (seen * others / both) * apart;
    mean += apart * (others / both);
    seen = both;
  }
};

// Wider rows: each thread's mean and squares in one pass, then results backward from the end, which L2 still holds. With
// a residual, registers do not suffice for two blocks per SM: the compiler would spill some for that.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, bool CLUSTER>
__global__ void __launch_bounds__(1024, ADD ? 1 : 0) norm_loop(FORWARD_PARAMETERS) {
  constexpr int VECS = WIDTH > 1 ? 2 : 4;
  const Team<CLUSTER> team;
  const int64 row = team.row(), step = team.step(), stride = VECS * step;
  x += row * x_row, residual += row * r_row, y += row * cols, total += row * cols;
  const Peeled<T, WIDTH, ALIGNED> peeled(x, cols);
  Part<int64> part = peeled.part((int64)team.first(), step);
  const Part<int64> extra_part = peeled.extra_part((int64)team.first());
  NormShare<Norm, T, WIDTH, VECS, int64> share;
  NormShare<Norm, T, 1, 1, int64> extra;
  Moments of_thread;
  if constexpr (!ALIGNED) {
    extra.load(x, 1, extra_part, 0.0f);
    if constexpr (ADD) extra.add(residual, 1, total, extra_part);
    if constexpr (Norm::CENTRED) {
      if (extra_part.first < extra_part.end) of_thread.merge(1.0f, extra.sum(), 0.0f);
    } else {
      of_thread.squares = extra.squares(0.0f, extra_part);
    }
  }
  for (; part.first < part.end; part.first += stride) {
    share.load(x, x_col, part, 0.0f);
    if constexpr (ADD) share.add(residual, r_col, total, part);
    if constexpr (Norm::CENTRED) {
      const int64 left = (part.end - part.first + step - 1) / step;
      const float here = WIDTH * (float)(left < VECS ? left : VECS), mean = share.sum() / here;
      of_thread.merge(here, mean, share.squares(mean, part));
    } else {
      of_thread.squares += share.squares(0.0f, part);
    }
  }
  const float count = (float)cols;
  float mean = 0.0f, squares = of_thread.squares;
  if constexpr (Norm::CENTRED) {
    mean = add_all(team, of_thread.mean * of_thread.seen, 0) / count;
    squares += of_thread.seen * (of_thread.mean - mean) * (of_thread.mean - mean);
  }
  const float rstd = rsqrtf(add_all(team, squares, Norm::CENTRED) / count + (float)eps);
  if (team.first() == 0) {
    if constexpr (Norm::CENTRED) means[row] = mean;
    rstds[row] = rstd;
  }
  if constexpr (ADD) x = total, x_col = 1;  // each thread reads what it wrote itself
  for (part.first -= stride; part.first >= 0; part.first -= stride) {
    share.load(x, x_col, part, 0.0f);
    share.store(y, weight, bias, w_row, part, mean, rstd);
  }
  if constexpr (!ALIGNED) {
    extra.load(x, 1, extra_part, 0.0f);
    extra.store(y, weight, bias, w_row, extra_part, mean, rstd);
  }
}

// Copies [WIDTH, to_row] of a parameter [cols], each without one element more at its start: blockIdx.y is the copy.
template <typename T>
__global__ void __launch_bounds__(256) norm_shift(const T* from, T* to, int64 cols, int64 to_row) {
  const int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at + blockIdx.y < cols) to[blockIdx.y * to_row + at] = from[at + blockIdx.y];
}
