// The forward pass of norms; norms.cuh says what its kernels are given.
#pragma once

#include "teams.cuh"

__device__ __forceinline__ float add_lanes(float value) { return merge_lanes<32>(Sums<1>{{value}}).of[0]; }

// How many elements there are, their mean, and the sum of their squared distances from it. The squares of all elements
// of a row follow from those of its warps: no difference of large sums is taken.
struct Distribution {
  float seen, mean, squares;

  __device__ static Distribution nothing() { return {0.0f, 0.0f, 0.0f}; }
};

template <int EACH>
__device__ __forceinline__ Distribution merge_warps(Distribution (&parts)[EACH]) {
  Sums<2> all = Sums<2>::nothing();
#pragma unroll
  for (int i = 0; i < EACH; i++) all.of[0] += parts[i].seen, all.of[1] += parts[i].seen * parts[i].mean;
  all = merge_lanes<32>(all);
  const float mean = all.of[1] / all.of[0];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const float apart = parts[i].mean - mean;
    squares += parts[i].squares + apart * parts[i].seen * apart;
  }
  return {all.of[0], mean, add_lanes(squares)};
}

// The sum of squares, for a norm that subtracts no mean.
typedef Sums<1> Squares;

template <class Team>
__device__ __forceinline__ float add_all(const Team& team, float value, unsigned turn) {
  return team.merge_all(Sums<1>{{value}}, turn).of[0];
}

// A thread's share of weight and bias: 1 and 0 where there is none.
template <typename T, int WIDTH, int VECS>
struct Parameters {
  typedef Vec<T, WIDTH> V;
  V weight[VECS], bias[VECS];

  template <typename Index>
  __device__ __forceinline__ void load(const T* weights, const T* biases, int64 w_row, const Part<Index>& part) {
    load_one(weight, weights, 1.0f, w_row, part);
    load_one(bias, biases, 0.0f, w_row, part);
  }
  template <typename Index>
  __device__ __forceinline__ static void load_one(V (&to)[VECS], const T* from, float otherwise, int64 w_row,
                                                  const Part<Index>& part) {
    const V* const accesses = reinterpret_cast<const V*>(from + part.from * w_row);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
      to[i] = from && at < part.end ? accesses[at] : V::filled(otherwise);
    }
  }
};

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

  __device__ __forceinline__ void store(T* y, const Parameters<T, WIDTH, VECS>& parameters, const Part<Index>& part,
                                        float mean, float rstd) const {
    V* const to = reinterpret_cast<V*>(y + part.from);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
      V out;
#pragma unroll
      for (int k = 0; k < WIDTH; k++)
        out.set(k, Norm::normalized(v[i][k], mean, rstd) * parameters.weight[i][k] + parameters.bias[i][k]);
      if (at < part.end) to[at] = out;
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
// EARLY: whether registers suffice to load the parameters before they are needed, while threads wait for each other.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, bool EARLY, class Team>
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
  Parameters<T, WIDTH, VECS> parameters;
  Parameters<T, 1, 1> extra_parameters;
  const auto load_parameters = [&] {
    parameters.load(weight, bias, w_row, part);
    if constexpr (!ALIGNED) extra_parameters.load(weight, bias, w_row, extra_part);
  };
  if constexpr (EARLY) load_parameters();
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
  if constexpr (!EARLY) load_parameters();
  share.store(y, parameters, part, mean, rstd);
  if constexpr (!ALIGNED) extra.store(y, extra_parameters, extra_part, mean, rstd);
}

// Narrow rows: LANES neighbouring threads per row, 32 / LANES rows per warp; no shared memory, no barrier.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, int LANES>
__global__ void __launch_bounds__(128) norm_warp(FORWARD_PARAMETERS) {
  static_assert(ALIGNED || LANES == 32, "a thread has at most one element before or after the accesses");
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  normalize_row<Norm, ADD, T, WIDTH, ALIGNED, VECS, false>(Lanes<LANES>(), row, FORWARD_ARGUMENTS);
}

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS · WIDTH >= cols.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, bool CLUSTER, int THREADS>
__global__ void __launch_bounds__(THREADS) norm_block(FORWARD_PARAMETERS) {
  const Team<CLUSTER> team;
  normalize_row<Norm, ADD, T, WIDTH, ALIGNED, VECS, THREADS <= 512 && !Norm::CENTRED>(team, team.row(), FORWARD_ARGUMENTS);
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
    Parameters<T, WIDTH, VECS> parameters;
    parameters.load(weight, bias, w_row, part);
    share.load(x, x_col, part, 0.0f);
    share.store(y, parameters, part, mean, rstd);
  }
  if constexpr (!ALIGNED) {
    Parameters<T, 1, 1> parameters;
    parameters.load(weight, bias, w_row, extra_part);
    extra.load(x, 1, extra_part, 0.0f);
    extra.store(y, parameters, extra_part, mean, rstd);
  }
}

// Copies [WIDTH, to_row] of a parameter [cols], each without one element more at its start: blockIdx.y is the copy.
template <typename T>
__global__ void __launch_bounds__(256) norm_shift(const T* from, T* to, int64 cols, int64 to_row) {
  const int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at + blockIdx.y < cols) to[blockIdx.y * to_row + at] = from[at + blockIdx.y];
}
