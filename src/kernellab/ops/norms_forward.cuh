// The forward pass of norms; norms.cuh says what its kernels are given.
#pragma once

#include "teams.cuh"

// What the mean and the deviation of some elements follow from: how many there are, their mean, and the sum of their
// squared distances from it. No difference of large sums is taken.
template <bool CENTRED>
struct Moments {
  float seen, mean, squares;

  __device__ static Moments nothing() { return {0.0f, 0.0f, 0.0f}; }
};

__device__ __forceinline__ Moments<true> merge(Moments<true> a, Moments<true> b) {
  const float both = a.seen + b.seen, part = both > 0.0f ? b.seen / both : 0.0f, apart = b.mean - a.mean;
  // In this order nothing merged with elements adds 0 also where apart² would overflow.
  return {both, a.mean + apart * part, a.squares + b.squares + apart * (a.seen * part) * apart};
}

// In sums instead of pairs, which would take a division each.
template <int LANES>
__device__ __forceinline__ Moments<true> merge_lanes(Moments<true> s) {
  const Sums<2> sums = merge_lanes<LANES>(Sums<2>{{s.seen, s.seen * s.mean}});
  const float mean = sums.of[0] > 0.0f ? sums.of[1] / sums.of[0] : 0.0f, apart = s.mean - mean;
  return {sums.of[0], mean, merge_lanes<LANES>(Sums<1>{{s.squares + s.seen * apart * apart}}).of[0]};
}

// Of a norm that subtracts no mean: the sum of squares.
template <>
struct Moments<false> {
  static constexpr float mean = 0.0f;
  float squares;

  __device__ static Moments nothing() { return {0.0f}; }
};

__device__ __forceinline__ Moments<false> merge(Moments<false> a, Moments<false> b) { return {a.squares + b.squares}; }

// Adds accesses up: add() takes each once, and add_again() each a second time if they are needed TWICE. Distances are taken
// from the first element, so that they are exact where elements are alike. If it is an outlier, digits are lost, though no
// more than 16-bit elements can spare. Those of fp32 are taken from the mean too, which corrects it.
template <bool CENTRED, class V>
struct Gathered {
  static constexpr bool TWICE = CENTRED && sizeof(V) / V::ELEMENTS == 4;
  float base, sum = 0.0f, rest = 0.0f, squares = 0.0f;
  int accesses = 0;

  __device__ __forceinline__ explicit Gathered(const V& first) : base(CENTRED ? first.unpack(0) : 0.0f) {}

  __device__ __forceinline__ void add(const V& v) {
    accesses++;
#pragma unroll
    for (int k = 0; k < V::ELEMENTS; k++) {
      const float distance = v.unpack(k) - base;
      if constexpr (CENTRED) sum += distance;
      if constexpr (!TWICE) squares = fmaf(distance, distance, squares);
    }
  }
  __device__ __forceinline__ float seen() const { return accesses * V::ELEMENTS; }
  __device__ __forceinline__ float mean() const { return accesses ? base + sum / seen() : 0.0f; }

  __device__ __forceinline__ void add_again(const V& v, float mean) {
#pragma unroll
    for (int k = 0; k < V::ELEMENTS; k++) {
      const float distance = v.unpack(k) - mean;
      rest += distance;
      squares = fmaf(distance, distance, squares);
    }
  }
  __device__ __forceinline__ Moments<CENTRED> moments() const {
    if constexpr (CENTRED) {
      const float left = TWICE ? rest : sum, apart = accesses ? left / seen() : 0.0f, around_mean = squares - left * apart;
      return {seen(), (TWICE ? mean() : base) + apart, around_mean < 0.0f ? 0.0f : around_mean};
    } else {
      return {squares};
    }
  }
};

// Whether the mean of a row is corrected after the merger: of fp32 elements that are far from 0 and close to each other, the
// roundings of a mean that threads merge are not small beside the deviation. Nor is that of one number: it takes two.
template <class Norm, typename T>
constexpr bool CORRECTED = Norm::CENTRED && sizeof(T) == 4;

// What elements of a row are normalized by. The mean is mean + rest.
template <class Norm, typename T>
struct Normalized {
  float mean, rest, rstd, shift;

  __device__ __forceinline__ Normalized(float mean, float rest, float rstd)
      : mean(mean), rest(rest), rstd(rstd), shift(-mean * rstd) {}

  // Of 16-bit elements the mean is subtracted as part of a constant: one instruction less. fp32 would lose digits.
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (Norm::CENTRED && sizeof(T) < 4) return fmaf(x, rstd, shift);
    if constexpr (CORRECTED<Norm, T>) return Norm::normalized(x - mean, rest, rstd);
    return Norm::normalized(x, mean, rstd);
  }
  // An access of the result, for the parameters of its columns. A norm that is not centred has no bias.
  template <class V>
  __device__ __forceinline__ V of_access(const V& x, const V& weight, const V& bias) const {
    V out;
#pragma unroll
    for (int k = 0; k < V::ELEMENTS; k++) {
      const float value = (*this)(x.unpack(k));
      out.set(k, Norm::CENTRED ? fmaf(value, weight.unpack(k), bias.unpack(k)) : value * weight.unpack(k));
    }
    return out;
  }
  // 0, which the compiler cannot know: it would keep 16-bit elements as fp32 until here, in twice the registers.
  __device__ __forceinline__ unsigned zero() const { return sizeof(T) < 4 ? __float_as_uint(rstd) >> 31 : 0; }
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

  // With MEAN_ONLY, the squares follow from `around`.
  template <bool MEAN_ONLY = false>
  __device__ __forceinline__ Moments<Norm::CENTRED> moments(const Part<Index>& part) const {
    Gathered<Norm::CENTRED, V> gathered(v[0]);
#pragma unroll
    for (int i = 0; i < VECS; i++)
      if (part.first + i * part.step < part.end) gathered.add(v[i]);
    if constexpr (gathered.TWICE && !MEAN_ONLY) {
      const float mean = gathered.mean();
#pragma unroll
      for (int i = 0; i < VECS; i++)
        if (part.first + i * part.step < part.end) gathered.add_again(v[i], mean);
    }
    return gathered.moments();
  }

  // The sums of the distances from a mean, which is 0 if the mean is exact, and of their squares.
  __device__ __forceinline__ Sums<2> around(float mean, const Part<Index>& part) const {
    Sums<2> sums = Sums<2>::nothing();
#pragma unroll
    for (int i = 0; i < VECS; i++)
#pragma unroll
      for (int k = 0; k < WIDTH; k++) {
        const float distance = part.first + i * part.step < part.end ? v[i][k] - mean : 0.0f;
        sums.of[0] += distance, sums.of[1] = fmaf(distance, distance, sums.of[1]);
      }
    return sums;
  }

  __device__ __forceinline__ void store(T* y, const T* weight, const T* bias, int64 w_row, const Part<Index>& part,
                                        const Normalized<Norm, T>& normalized) const {
    V* const to = reinterpret_cast<V*>(y + part.from);
    const V* const weights = reinterpret_cast<const V*>(weight + part.from * w_row);
    const V* const biases = reinterpret_cast<const V*>(bias + part.from * w_row);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
      if (at >= part.end) continue;
      V held = v[i];
      held.flip(normalized.zero());
      const V w = weight ? weights[at] : V::filled(1.0f), b = Norm::CENTRED && bias ? biases[at] : V::filled(0.0f);
      to[at] = normalized.of_access(held, w, b);
    }
  }
};

#define FORWARD_PARAMETERS                                                                                     \
  const T *x, int64 x_row, int64 x_col, const T *residual, int64 r_row, int64 r_col, const T *weight,          \
      const T *bias, int64 w_row, T *y, T *total, float *means, float *rstds, int64 rows, int64 cols, double eps
#define FORWARD_ARGUMENTS \
  x, x_row, x_col, residual, r_row, r_col, weight, bias, w_row, y, total, means, rstds, rows, cols, eps

// What a row is normalized by, from its mean, which is mean + rest, and the squared distances from it; one thread writes it.
template <class Norm, typename T>
__device__ __forceinline__ Normalized<Norm, T> conclude(float mean, float rest, float squares, bool writes, int64 row,
                                                        int64 cols, double eps, float* means, float* rstds) {
  const float rstd = rsqrtf(squares / (float)cols + (float)eps);
  if (writes) {
    if constexpr (Norm::CENTRED) means[row] = mean + rest;
    rstds[row] = rstd;
  }
  return {mean, rest, rstd};
}

// The same of a row whose mean is corrected, from the sums of the distances from it and of their squares.
template <class Norm, typename T>
__device__ __forceinline__ Normalized<Norm, T> conclude(float mean, Sums<2> around, bool writes, int64 row, int64 cols,
                                                        double eps, float* means, float* rstds) {
  const float rest = around.of[0] / (float)cols;
  const float squares = around.of[1] - around.of[0] * rest;
  return conclude<Norm, T>(mean, rest, squares < 0.0f ? 0.0f : squares, writes, row, cols, eps, means, rstds);
}

// One row, held in registers. Threads beyond the last row stay for the mergers.
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
  constexpr bool CORRECTS = CORRECTED<Norm, T>;
  const bool writes = team.first() == 0 && exists;
  auto moments = share.template moments<CORRECTS>(part);
  if constexpr (!ALIGNED) moments = merge(moments, extra.template moments<CORRECTS>(extra_part));
  moments = team.merge_all(moments, 0);
  const auto store = [&](const Normalized<Norm, T>& normalized) {
    share.store(y, weight, bias, w_row, part, normalized);
    if constexpr (!ALIGNED) extra.store(y, weight, bias, w_row, extra_part, normalized);
  };
  if constexpr (CORRECTS) {
    Sums<2> around = share.around(moments.mean, part);
    if constexpr (!ALIGNED) around = merge(around, extra.around(moments.mean, extra_part));
    around = team.merge_all(around, 1);
    store(conclude<Norm, T>(moments.mean, around, writes, row, cols, eps, means, rstds));
  } else {
    store(conclude<Norm, T>(moments.mean, 0.0f, moments.squares, writes, row, cols, eps, means, rstds));
  }
}

// Narrow rows: LANES neighbouring threads per row, 32 / LANES rows per warp; no shared memory, no barrier. With a residual,
// the compiler would spill some registers to have room for more blocks.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, int LANES>
__global__ void __launch_bounds__(128, ADD ? 1 : 0) norm_warp(FORWARD_PARAMETERS) {
  static_assert(ALIGNED || LANES == 32, "a thread has at most one element before or after the accesses");
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  normalize_row<Norm, ADD, T, WIDTH, ALIGNED, VECS>(Lanes<LANES>(), row, FORWARD_ARGUMENTS);
}

// How many blocks of norm_block an SM should have room for. Layer norm of 16384 columns in bfloat16 reached 0.93 of copy
// bandwidth with three, and 0.86 with two (H200, 2026-11-18). Where registers do not suffice for three: what is possible.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, bool CLUSTER, int THREADS>
constexpr int BLOCKS_PER_SM = THREADS == 512 && WIDTH > 1 && ALIGNED && !ADD && !CLUSTER ? CORRECTED<Norm, T> ? 2 : 3 : 1;

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS · WIDTH >= cols, and blockDim.x is
// at most THREADS.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, int VECS, bool CLUSTER, int THREADS>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM<Norm, ADD, T, WIDTH, ALIGNED, CLUSTER, THREADS>)
norm_block(FORWARD_PARAMETERS) {
  const Team<CLUSTER> team;
  normalize_row<Norm, ADD, T, WIDTH, ALIGNED, VECS>(team, team.row(), FORWARD_ARGUMENTS);
}

// Wide, aligned rows that a cluster holds in shared memory, where the copy engine brings them: from sm_90 on. An SM has
// room for several of these small blocks. While one computes, what others need is on its way, and the GPU starts the next
// ones on those SMs that are done first: SMs differ by a quarter in how fast memory serves them. Dynamic shared memory: a
// block's slice of x, of the residual, and, unless the norm is centred, of the weight. With weight and bias too, there
// would be room for too few blocks.
template <class Norm, bool ADD, typename T, int WIDTH>
__global__ void __launch_bounds__(256, Norm::CENTRED ? 6 : 2)
norm_slices(const T* x, int64 x_row, const T* residual, int64 r_row, const T* weight, const T* bias, T* y, T* total,
            float* means, float* rstds, int64 cols, double eps) {
  typedef Vec<T, WIDTH> V;
  extern __shared__ float shared[];
  __shared__ SharedBarrier row_here, weight_here;
  const Team<true, 256 / 32> team;
  const int64 row = team.row();
  const int accesses = cols / WIDTH, size = (accesses + team.blocks - 1) / team.blocks, before = team.rank * size;
  const int count = min(accesses - before, size);
  V *const held = reinterpret_cast<V*>(shared), *const added = held + size, *const weights = held + (ADD ? 2 : 1) * size;
  if (threadIdx.x == 0) {
    barrier_init(&row_here, 1);
    barrier_init(&weight_here, 1);
    barrier_fence();
    const unsigned bytes = count * sizeof(V);
    barrier_expect(&row_here, (ADD ? 2 : 1) * bytes);
    copy_to_shared(held, x + row * x_row + before * WIDTH, bytes, &row_here);
    if constexpr (ADD) copy_to_shared(added, residual + row * r_row + before * WIDTH, bytes, &row_here);
    if (!Norm::CENTRED && weight) {
      barrier_expect(&weight_here, bytes);
      copy_to_shared(weights, weight + before * WIDTH, bytes, &weight_here);
    }
  }
  __syncthreads();
  barrier_wait(&row_here, 0);
  Gathered<Norm::CENTRED, V> gathered(held[min((int)threadIdx.x, count - 1)]);
#pragma unroll 4
  for (int at = threadIdx.x; at < count; at += 256) {
    V v = held[at];
    if constexpr (ADD) {
      const V other = added[at];
#pragma unroll
      for (int k = 0; k < WIDTH; k++) v.set(k, v.unpack(k) + other.unpack(k));
      held[at] = reinterpret_cast<V*>(total + row * cols)[before + at] = v;
    }
    gathered.add(v);
  }
  const auto moments = team.merge_all(gathered.moments(), 0);
  const auto normalized = [&] {
    if constexpr (CORRECTED<Norm, T>) {
      Sums<2> around = Sums<2>::nothing();
#pragma unroll 4
      for (int at = threadIdx.x; at < count; at += 256) {
        const V v = held[at];
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
          const float distance = v.unpack(k) - moments.mean;
          around.of[0] += distance, around.of[1] = fmaf(distance, distance, around.of[1]);
        }
      }
      around = team.merge_all(around, 1);
      return conclude<Norm, T>(moments.mean, around, team.first() == 0, row, cols, eps, means, rstds);
    } else {
      return conclude<Norm, T>(moments.mean, 0.0f, moments.squares, team.first() == 0, row, cols, eps, means, rstds);
    }
  }();
  if (!Norm::CENTRED && weight) barrier_wait(&weight_here, 0);
  const V* const of_columns = Norm::CENTRED ? reinterpret_cast<const V*>(weight) + before : weights;
  const V* const biases = reinterpret_cast<const V*>(bias) + before;
#pragma unroll 4
  for (int at = threadIdx.x; at < count; at += 256) {
    const V w = weight ? of_columns[at] : V::filled(1.0f), b = Norm::CENTRED && bias ? biases[at] : V::filled(0.0f);
    reinterpret_cast<V*>(y + row * cols)[before + at] = normalized.of_access(held[at], w, b);
  }
}

// Wider rows: the moments in one pass, then results backward from the end, which L2 still holds. With a residual, or with
// accesses of one element around a mean, registers do not suffice for two blocks per SM: the compiler would spill some.
template <class Norm, bool ADD, typename T, int WIDTH, bool ALIGNED, bool CLUSTER>
__global__ void __launch_bounds__(1024, ADD || (Norm::CENTRED && WIDTH == 1) ? 1 : 0) norm_loop(FORWARD_PARAMETERS) {
  constexpr int VECS = WIDTH > 1 ? 2 : 4;
  const Team<CLUSTER> team;
  const int64 row = team.row(), step = team.step(), stride = VECS * step;
  x += row * x_row, residual += row * r_row, y += row * cols, total += row * cols;
  const Peeled<T, WIDTH, ALIGNED> peeled(x, cols);
  Part<int64> part = peeled.part((int64)team.first(), step);
  const Part<int64> extra_part = peeled.extra_part((int64)team.first());
  NormShare<Norm, T, WIDTH, VECS, int64> share;
  NormShare<Norm, T, 1, 1, int64> extra;
  auto moments = Moments<Norm::CENTRED>::nothing();
  if constexpr (!ALIGNED) {
    extra.load(x, 1, extra_part, 0.0f);
    if constexpr (ADD) extra.add(residual, 1, total, extra_part);
    moments = extra.moments(extra_part);
  }
  for (; part.first < part.end; part.first += stride) {
    share.load(x, x_col, part, 0.0f);
    if constexpr (ADD) share.add(residual, r_col, total, part);
    moments = merge(moments, share.moments(part));
  }
  moments = team.merge_all(moments, 0);
  const auto normalized =
      conclude<Norm, T>(moments.mean, 0.0f, moments.squares, team.first() == 0, row, cols, eps, means, rstds);
  if constexpr (ADD) x = total, x_col = 1;  // each thread reads what it wrote itself
  for (part.first -= stride; part.first >= 0; part.first -= stride) {
    share.load(x, x_col, part, 0.0f);
    share.store(y, weight, bias, w_row, part, normalized);
  }
  if constexpr (!ALIGNED) {
    extra.load(x, 1, extra_part, 0.0f);
    extra.store(y, weight, bias, w_row, extra_part, normalized);
  }
}

// Copies [WIDTH, to_row] of a parameter [cols], each without one element more at its start: blockIdx.y is the copy.
template <typename T>
__global__ void __launch_bounds__(256) norm_shift(const T* from, T* to, int64 cols, int64 to_row) {
  const int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at + blockIdx.y < cols) to[blockIdx.y * to_row + at] = from[at + blockIdx.y];
}
