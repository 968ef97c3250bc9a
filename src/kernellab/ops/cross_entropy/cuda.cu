// Cross-entropy of rows of logits with a target column each. Forward reads the logits once, backward once more.
//
// In every kernel x is [rows, cols] with strides (x_row, x_col), in elements. WIDTH > 1 only if x_col is 1: rows may then
// start anywhere, and the elements before the first multiple of 16 bytes are taken one at a time. A row is handled by a
// team of LANES threads: some lanes of a warp, or a block.
//
// `saved` holds the log-sum-exp of every row in two parts, so that a probability near 1 keeps the digits of its distance
// from 1: all maxima, then the logarithms of all sums of exp(x - maximum). Then the factor by which a mean scales its
// gradient.
#include "../stats.cuh"

constexpr int NARROW_BLOCK = 128;  // threads per block if a team is a warp or less

constexpr int THREADS_PER_SM = 1024;  // at least so many: 64 registers each, which forward fills without spilling

template <int LANES> constexpr int THREADS = LANES > 32 ? LANES : NARROW_BLOCK;

// A row's target. Outside [0, cols) nothing is read or written for it: loss and gradient are NaN.
struct Target {
  int64 col;
  bool ignored, valid;

  __device__ __forceinline__ Target(const int64* target, int64 ignore_index, int64 cols) {
    col = *target;
    ignored = col == ignore_index;
    valid = col >= 0 && col < cols;
  }
};

// What a row's loss is computed from: with a the anchor, `below` is the sum of a - x, for label smoothing. The anchor is
// the target's logit, so that logits far from 0 lose no digits.
struct RowSums {
  Stats stats;
  float below;

  __device__ static RowSums nothing() { return {Stats::nothing(), 0.0f}; }
};

__device__ __forceinline__ RowSums merge(RowSums a, RowSums b) { return {merge(a.stats, b.stats), a.below + b.below}; }

__device__ __forceinline__ float anchor_of(float own) { return isfinite(own) ? own : 0.0f; }

template <bool SMOOTH, typename S>
__device__ __forceinline__ void absorb(RowSums& sums, const S& share, float anchor, int64 first, int64 step, int64 end) {
  sums.stats = stats_of<S::ACCESSES>(share, sums.stats);
  if constexpr (SMOOTH) {
    float part = 0.0f;
#pragma unroll
    for (int i = 0; i < S::ACCESSES; i++)
      if (first + i * step < end)
#pragma unroll
        for (int k = 0; k < S::ELEMENTS; k++) part += anchor - share.v[i][k];
    sums.below += part;
  }
}

// Every thread of a team gets what all of them have. Between two calls, a __syncthreads().
template <int LANES, typename S>
__device__ __forceinline__ S merge_team(S s) {
  if constexpr (LANES <= 32)
    return merge_lanes<LANES>(s);
  else
    return Team<false>().merge_all(s);
}

// Writes the loss and the log-sum-exp of a row of `rows`. Differences are taken before the logarithm is added: it is small.
template <bool SMOOTH, typename L>
__device__ __forceinline__ void finish(const RowSums& sums, const Target& target, float own, int64 cols, float smoothing,
                                       L* loss, float* peaks, int64 rows) {
  const float log_total = logf(sums.stats.total), peak = sums.stats.peak;
  float value = log_total + (peak - own);
  if constexpr (SMOOTH)
    value = (1.0f - smoothing) * value + smoothing * (log_total + (peak - anchor_of(own)) + sums.below / cols);
  if (!target.valid) value = CUDART_NAN_F;
  if (target.ignored) value = 0.0f;
  *loss = from_float<L>(value);
  peaks[0] = peak;
  peaks[rows] = log_total;
}

// Loss and log-sum-exp of every row. With SPLIT a row is shared by `parts` blocks, which write their sums to `partial`,
// [rows, parts], and cross_entropy_join does the rest.
template <typename T, int WIDTH, int LANES, bool SMOOTH, bool SPLIT, typename L>
__global__ void __launch_bounds__(THREADS<LANES>, THREADS_PER_SM / THREADS<LANES>)
cross_entropy_forward(const T* x, const int64* targets, L* losses, float* saved, RowSums* partial, int64 rows, int64 cols,
                      int64 x_row, int64 x_col, int64 target_step, int64 ignore_index, double smoothing, int64 parts) {
  constexpr int VECS = WIDTH > 1 ? 4 : 8;
  const int64 team = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int lane = threadIdx.x % LANES;
  const int64 row = SPLIT ? team / parts : team, part = SPLIT ? team % parts : 0;
  const bool exists = row < rows;  // threads beyond the last row stay for the shuffles
  const int64 row_or_0 = exists ? row : 0;
  const T* in = x + row_or_0 * x_row;
  const Target target(targets + row_or_0 * target_step, ignore_index, cols);
  const float own = target.valid ? to_float(in[target.col * x_col]) : 0.0f;
  RowSums sums = RowSums::nothing();
  if (exists && !target.ignored) {
    const Peeled<T, WIDTH> peeled(in, cols);
    const int64 per_part = SPLIT ? (peeled.accesses + parts - 1) / parts : peeled.accesses;
    const int64 begin = part * per_part;
    const int64 end = min(begin + per_part, peeled.accesses);
    const float anchor = anchor_of(own);
    if (part == 0)
      for (int i = lane; i < peeled.extras; i += LANES) {
        Share<T, 1, 1, int64> share;
        share.load(reinterpret_cast<const Vec<T, 1>*>(in), 1, peeled.extra(i), 0, cols, -INF);
        absorb<SMOOTH>(sums, share, anchor, 0, 0, 1);
      }
    Share<T, WIDTH, VECS, int64> share;
    for (int64 at = begin + lane; at < end; at += VECS * LANES) {
      share.load(reinterpret_cast<const Vec<T, WIDTH>*>(in + peeled.head), x_col, at, LANES, end, -INF);
      absorb<SMOOTH>(sums, share, anchor, at, LANES, end);
    }
  }
  sums = merge_team<LANES>(sums);
  if (lane == 0 && exists) {
    if constexpr (SPLIT) {
      partial[team] = sums;
    } else {
      finish<SMOOTH>(sums, target, own, cols, smoothing, losses + row, saved + row, rows);
    }
  }
}

// The loss of rows that were split: a warp per row, a lane per part.
template <typename T, bool SMOOTH, typename L>
__global__ void __launch_bounds__(32)
cross_entropy_join(const T* x, const int64* targets, L* losses, float* saved, const RowSums* partial, int64 cols,
                   int64 x_row, int64 x_col, int64 target_step, int64 ignore_index, double smoothing, int64 parts) {
  const int64 row = blockIdx.x;
  const Target target(targets + row * target_step, ignore_index, cols);
  const float own = target.valid ? to_float(x[row * x_row + target.col * x_col]) : 0.0f;
  RowSums sums = RowSums::nothing();
  if (threadIdx.x < parts) sums = partial[row * parts + threadIdx.x];
  sums = merge_lanes<32>(sums);
  if (threadIdx.x == 0) finish<SMOOTH>(sums, target, own, cols, smoothing, losses + row, saved + row, gridDim.x);
}

// The sum or the mean of all losses that count, by one block in a fixed order.
template <typename T>
__global__ void __launch_bounds__(1024)
cross_entropy_reduce(const float* losses, const int64* targets, T* result, float* saved, int64 rows,
                     int64 target_step, int64 ignore_index, int64 mean) {
  Sums<2> sums = Sums<2>::nothing();  // of the losses, and how many count
#pragma unroll 4
  for (int64 row = threadIdx.x; row < rows; row += 1024) {
    sums.of[0] += losses[row];
    sums.of[1] += targets[row * target_step] != ignore_index;
  }
  sums = merge_team<1024>(sums);
  if (threadIdx.x == 0) {
    const float total = sums.of[0], count = sums.of[1];
    *result = from_float<T>(mean ? total / count : total);  // 0 / 0 is NaN, as in PyTorch
    saved[2 * rows] = 1.0f / count;
  }
}

// The gradient of a row's logits: scale·(softmax - even), and scale·(1 - smoothing) less at the target.
struct Slope {
  float scale, peak, log_total, even, smoothing;
  bool ignored;

  __device__ __forceinline__ float operator()(float x) const {
    const float probability = exp2_fast((x - peak) * LOG2E - log_total * LOG2E);
    return ignored ? 0.0f : scale * (probability - even);
  }
  __device__ __forceinline__ float at_target(float x) const {
    const float above = expm1f((x - peak) - log_total);  // the probability - 1
    return ignored ? 0.0f : scale * (above + (smoothing - even));
  }
};

// The gradient of x, contiguous. With WIDTH > 1 its rows start at the same offset from a multiple of 16 bytes as those
// of x. A team takes VECS accesses per thread; `parts` teams share a row. The upstream gradient of row r is
// upstream[r·upstream_step], in a mean times the factor of `saved`.
template <typename T, int WIDTH, int LANES, int VECS>
__global__ void __launch_bounds__(THREADS<LANES>)
cross_entropy_backward(const T* x, const int64* targets, const float* saved, const T* upstream, T* dx, int64 rows,
                       int64 cols, int64 x_row, int64 x_col, int64 target_step, int64 upstream_step,
                       int64 ignore_index, double smoothing, int64 mean, int64 parts) {
  typedef Vec<T, WIDTH> V;
  const int64 team = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int lane = threadIdx.x % LANES;
  const int64 row = LANES > 32 ? team / parts : team, part = LANES > 32 ? team % parts : 0;
  if (row >= rows) return;
  const T* in = x + row * x_row;
  T* out = dx + row * cols;
  const Target target(targets + row * target_step, ignore_index, cols);
  const float scale = to_float(upstream[row * upstream_step]) * (mean ? saved[2 * rows] : 1.0f);
  const Slope slope = {target.valid ? scale : CUDART_NAN_F, saved[row], saved[rows + row], (float)smoothing / cols,
                       (float)smoothing, target.ignored};

  const Peeled<T, WIDTH> peeled(in, cols);
  const V* vectors = reinterpret_cast<const V*>(in + peeled.head);
  V* results = reinterpret_cast<V*>(out + peeled.head);
  const int64 first = part * (LANES * VECS) + lane;
  bool has_target = false;
  Share<T, WIDTH, VECS, int64> share;
  share.load(vectors, x_col, first, LANES, target.ignored ? 0 : peeled.accesses, 0.0f);
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int64 at = first + i * LANES;
    V result;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) result.set(k, slope(share.v[i][k]));
    if (at < peeled.accesses) {
      __stcs(&results[at].raw, result.raw);  // streaming: nothing here reads it again
      const int64 column = peeled.head + at * WIDTH;
      has_target |= target.col >= column && target.col < column + WIDTH;
    }
  }
  if (part == 0)
#pragma unroll 1
    for (int i = lane; i < peeled.extras; i += LANES) {
      const int64 col = peeled.extra(i);
      out[col] = from_float<T>(slope(to_float(in[col])));
      has_target |= col == target.col;
    }
  // The thread that wrote the target's element writes it once more.
  if (has_target) out[target.col] = from_float<T>(slope.at_target(to_float(in[target.col * x_col])));
}
