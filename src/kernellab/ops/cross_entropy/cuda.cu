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

  __device__ __forceinline__ Target(int64 col, int64 ignore_index, int64 cols)
      : col(col), ignored(col == ignore_index), valid(col >= 0 && col < cols) {}
};

// What a row's loss is computed from: with a the anchor, `below` is the sum of a - x, for label smoothing. The anchor is
// the target's logit, so that logits far from 0 lose no digits.
template <bool SMOOTH>
struct RowSums {
  Stats stats;
  float below;

  __device__ static RowSums nothing() { return {Stats::nothing(), 0.0f}; }
};

template <>
struct RowSums<false> {
  Stats stats;

  __device__ static RowSums nothing() { return {Stats::nothing()}; }
};

template <bool SMOOTH>
__device__ __forceinline__ RowSums<SMOOTH> merge(RowSums<SMOOTH> a, RowSums<SMOOTH> b) {
  RowSums<SMOOTH> both;
  both.stats = merge(a.stats, b.stats);
  if constexpr (SMOOTH) both.below = a.below + b.below;
  return both;
}

__device__ __forceinline__ float anchor_of(float own) { return isfinite(own) ? own : 0.0f; }

template <bool SMOOTH, typename S, typename Index>
__device__ __forceinline__ void absorb(RowSums<SMOOTH>& sums, const S& share, float anchor, Index first, Index step,
                                       Index end) {
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

// The elements of a row before and after its accesses.
template <bool SMOOTH, int LANES, typename T, class P>
__device__ __forceinline__ void absorb_extras(RowSums<SMOOTH>& sums, const T* in, const P& peeled, int lane, float anchor) {
  for (int i = lane; i < peeled.extras; i += LANES) {
    Share<T, 1, 1, int64> share;
    share.load(reinterpret_cast<const Vec<T, 1>*>(in), 1, peeled.extra(i), 0, peeled.cols, -INF);
    absorb(sums, share, anchor, 0, 0, 1);
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

// What merge_lanes() gives, with one exponential for each lane: all know the maximum before they add up.
template <int LANES, bool SMOOTH>
__device__ __forceinline__ RowSums<SMOOTH> merge_row(RowSums<SMOOTH> sums) {
  const float own = sums.stats.peak;
#pragma unroll
  for (int apart = LANES / 2; apart > 0; apart /= 2)
    sums.stats.peak = fmaxf(sums.stats.peak, __shfl_xor_sync(~0u, sums.stats.peak, apart));
  sums.stats.total *= exp_above(own, sums.stats.base());
  if constexpr (SMOOTH) {
    const Sums<2> added = merge_lanes<LANES>(Sums<2>{sums.stats.total, sums.below});
    sums.stats.total = added.of[0], sums.below = added.of[1];
  } else {
    sums.stats.total = merge_lanes<LANES>(Sums<1>{sums.stats.total}).of[0];
  }
  return sums;
}

// The loss of a row of `rows`; writes its log-sum-exp. Differences are taken before the logarithm is added: it is small.
template <bool SMOOTH>
__device__ __forceinline__ float finish(const RowSums<SMOOTH>& sums, const Target& target, float own, int64 cols,
                                        float smoothing, float* peaks, int64 rows) {
  const float log_total = logf(sums.stats.total), peak = sums.stats.peak;
  float value = log_total + (peak - own);
  if constexpr (SMOOTH)
    value = (1.0f - smoothing) * value + smoothing * (log_total + (peak - anchor_of(own)) + sums.below / cols);
  peaks[0] = peak;
  peaks[rows] = log_total;
  return target.ignored ? 0.0f : target.valid ? value : CUDART_NAN_F;
}

// The sum of losses, and how many count.
typedef Sums<2> Tally;

// The sum or the mean of all losses that count, and the factor by which a mean scales its gradient.
template <typename T>
__device__ __forceinline__ void write_result(const Tally& tally, int64 mean, T* result, float* factor) {
  const float total = tally.of[0], count = tally.of[1];
  *result = from_float<T>(mean ? total / count : total);  // 0 / 0 is NaN, as in PyTorch
  *factor = 1.0f / count;
}

// What thread 0 of every block has is added up by the block that arrives last, always in the same order. A kernel for it
// would take longer than many a loss. `arrivals` is 0 before and after the launch.
template <int COUNT, typename T>
__device__ __forceinline__ void reduce_blocks(const Tally& tally, Tally* tallies, unsigned* arrivals, int64 mean,
                                              T* result, float* factor) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    tallies[blockIdx.x] = tally;
    __threadfence();
    is_last = atomicInc(arrivals, gridDim.x - 1) == gridDim.x - 1;  // the last one sets it to 0
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Tally all = Tally::nothing();
#pragma unroll 16
  for (unsigned i = threadIdx.x; i < gridDim.x; i += COUNT) {
    const float2 of_block = __ldcg(reinterpret_cast<const float2*>(tallies) + i);
    all.of[0] += of_block.x;
    all.of[1] += of_block.y;
  }
  all = merge_team<COUNT>(all);
  if (threadIdx.x == 0) write_result(all, mean, result, factor);
}

#define LOSS_PARAMETERS                                                                                                \
  const T *x, const int64 *targets, L *losses, float *saved, int64 rows, int64 cols, int64 x_row, int64 x_col,         \
      int64 target_step, int64 ignore_index, double smoothing, T *result, Tally *tallies, unsigned *arrivals, int64 mean

// Loss and log-sum-exp of narrow rows: teams of LANES threads, some lanes of a warp, take one row after the other. Where
// the losses are REDUCED, `losses` is not written.
template <typename T, int WIDTH, bool ALIGNED, int LANES, bool SMOOTH, bool REDUCED, typename L>
__global__ void __launch_bounds__(NARROW_BLOCK, THREADS_PER_SM / NARROW_BLOCK)
cross_entropy_narrow(LOSS_PARAMETERS) {
  constexpr int VECS = WIDTH > 1 ? 4 : 8;
  const int lane = threadIdx.x % LANES;
  const int64 step = (int64)gridDim.x * (NARROW_BLOCK / LANES);
  int64 row = ((int64)blockIdx.x * NARROW_BLOCK + threadIdx.x) / LANES;
  int64 of_warp = row - threadIdx.x % 32 / LANES;  // threads beyond the last row stay for the shuffles
  Tally tally = Tally::nothing();
  int64 next = row < rows ? targets[row * target_step] : ignore_index;
  for (; of_warp < rows; of_warp += step, row += step) {
    const Target target(next, ignore_index, cols);
    // The row after this one can be read as soon as this one is done.
    if (row + step < rows) next = targets[(row + step) * target_step];
    RowSums<SMOOTH> sums = RowSums<SMOOTH>::nothing();
    float own = 0.0f;
    if (row < rows && !target.ignored) {
      const T* in = x + row * x_row;
      const Peeled<T, WIDTH, ALIGNED> peeled(in, cols);
      if (target.valid) own = to_float(in[target.col * x_col]);
      const float anchor = anchor_of(own);
      if constexpr (!ALIGNED) absorb_extras<SMOOTH, LANES>(sums, in, peeled, lane, anchor);
      Share<T, WIDTH, VECS, int> share;
      const int end = peeled.accesses;
      for (int at = lane; at < end; at += VECS * LANES) {
        share.load(reinterpret_cast<const Vec<T, WIDTH>*>(in + peeled.head), x_col, at, LANES, end, -INF);
        absorb(sums, share, anchor, at, LANES, end);
      }
    }
    sums = merge_row<LANES>(sums);
    if (lane == 0 && row < rows) {
      const float loss = finish(sums, target, own, cols, smoothing, saved + row, rows);
      if constexpr (REDUCED) {
        tally.of[0] += loss;
        tally.of[1] += !target.ignored;
      } else {
        losses[row] = from_float<L>(loss);
      }
    }
  }
  if constexpr (REDUCED) {
    tally = merge_team<NARROW_BLOCK>(tally);
    reduce_blocks<NARROW_BLOCK>(tally, tallies, arrivals, mean, result, saved + 2 * rows);
  }
}

// Loss and log-sum-exp of wider rows, a block each. With SPLIT a row is shared by `parts` blocks, which write their sums
// to `partial`, [rows, parts], and cross_entropy_join does the rest.
template <typename T, int WIDTH, int LANES, bool SMOOTH, bool SPLIT, typename L>
__global__ void __launch_bounds__(LANES, THREADS_PER_SM / LANES)
cross_entropy_wide(LOSS_PARAMETERS, RowSums<SMOOTH>* partial, int64 parts) {
  constexpr int VECS = WIDTH > 1 ? 4 : 8;
  const int lane = threadIdx.x;
  const int64 row = SPLIT ? blockIdx.x / (unsigned)parts : blockIdx.x, part = SPLIT ? blockIdx.x % (unsigned)parts : 0;
  const T* in = x + row * x_row;
  const Peeled<T, WIDTH> peeled(in, cols);
  const int64 per_part = SPLIT ? (peeled.accesses + parts - 1) / parts : peeled.accesses;
  const int64 end = min((part + 1) * per_part, peeled.accesses);
  const Vec<T, WIDTH>* vectors = reinterpret_cast<const Vec<T, WIDTH>*>(in + peeled.head);
  int64 at = part * per_part + lane;
  Share<T, WIDTH, VECS, int64> share;
  const Target target(targets[row * target_step], ignore_index, cols);
  RowSums<SMOOTH> sums = RowSums<SMOOTH>::nothing();
  float own = 0.0f;
  if (!target.ignored) {
    if (target.valid) own = to_float(in[target.col * x_col]);
    const float anchor = anchor_of(own);
    if (part == 0) absorb_extras<SMOOTH, LANES>(sums, in, peeled, lane, anchor);
    for (; at < end; at += VECS * LANES) {
      share.load(vectors, x_col, at, LANES, end, -INF);
      absorb(sums, share, anchor, at, (int64)LANES, end);
    }
  }
  sums = merge_team<LANES>(sums);
  if constexpr (SPLIT) {
    if (lane == 0) partial[blockIdx.x] = sums;
  } else if (lane == 0) {
    losses[row] = from_float<L>(finish(sums, target, own, cols, smoothing, saved + row, rows));
  }
}

// The loss of rows that were split: a warp per row, a lane per part.
template <typename T, bool SMOOTH, typename L>
__global__ void __launch_bounds__(32)
cross_entropy_join(LOSS_PARAMETERS, const RowSums<SMOOTH>* partial, int64 parts) {
  const int64 row = blockIdx.x;
  const Target target(targets[row * target_step], ignore_index, cols);
  const float own = target.valid ? to_float(x[row * x_row + target.col * x_col]) : 0.0f;
  RowSums<SMOOTH> sums = RowSums<SMOOTH>::nothing();
  if (threadIdx.x < parts) sums = partial[row * parts + threadIdx.x];
  sums = merge_lanes<32>(sums);
  if (threadIdx.x == 0) losses[row] = from_float<L>(finish(sums, target, own, cols, smoothing, saved + row, rows));
}

// The sum or the mean of losses of wider rows, by one block in a fixed order.
template <typename T>
__global__ void __launch_bounds__(1024)
cross_entropy_reduce(const float* losses, const int64* targets, T* result, float* saved, int64 rows,
                     int64 target_step, int64 ignore_index, int64 mean) {
  Tally tally = Tally::nothing();
#pragma unroll 4
  for (int64 row = threadIdx.x; row < rows; row += 1024) {
    tally.of[0] += losses[row];
    tally.of[1] += targets[row * target_step] != ignore_index;
  }
  tally = merge_team<1024>(tally);
  if (threadIdx.x == 0) write_result(tally, mean, result, saved + 2 * rows);
}

// The gradient of a row's logits: scale·(softmax - even), and scale·(1 - smoothing) less at the target. For an ignored
// row the numbers are 0, and so is the gradient.
struct Slope {
  float scale, peak, log_total, even, smoothing;

  __device__ __forceinline__ float operator()(float x) const {
    const float probability = exp2_fast((x - peak) * LOG2E - log_total * LOG2E);
    return scale * (probability - even);
  }
  __device__ __forceinline__ float at_target(float x) const {
    const float above = expm1f((x - peak) - log_total);  // the probability - 1
    return scale * (above + (smoothing - even));
  }
};

// The gradient of x, contiguous. With WIDTH > 1 its rows start at the same offset from a multiple of 16 bytes as those
// of x; where they are ALIGNED, at none. A team takes VECS accesses per thread; `parts` teams share a row. The upstream
// gradient of row r is upstream[r·upstream_step], in a mean times the factor of `saved`. `even` is smoothing / cols.
template <typename T, int WIDTH, bool ALIGNED, int LANES, int VECS>
__global__ void __launch_bounds__(THREADS<LANES>)
cross_entropy_backward(const T* x, const int64* targets, const float* saved, const T* upstream, T* dx, int64 rows,
                       int64 cols, int64 x_row, int64 x_col, int64 target_step, int64 upstream_step,
                       int64 ignore_index, double smoothing, double even, int64 mean, int64 parts) {
  typedef Vec<T, WIDTH> V;
  const int lane = threadIdx.x % LANES;
  // Blocks are counted in 32 bits: a 64-bit division would take longer than the block's arithmetic.
  const unsigned part = LANES > 32 ? blockIdx.x % (unsigned)parts : 0;
  const int64 row = LANES > 32 ? blockIdx.x / (unsigned)parts : ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  if (row >= rows) return;
  const T* in = x + row * x_row;
  T* out = dx + row * cols;
  const Peeled<T, WIDTH, ALIGNED> peeled(in, cols);
  const int64 first = (int64)part * (LANES * VECS);  // of the team's accesses
  const int count = min(peeled.accesses - first, (int64)(LANES * VECS));
  const int64 first_col = peeled.head + first * WIDTH;
  const V* vectors = reinterpret_cast<const V*>(in + first_col * (WIDTH > 1 ? 1 : x_col));
  V* results = reinterpret_cast<V*>(out + first_col);
  Share<T, WIDTH, VECS, int> share;
  // All of these are read before the first is needed.
  const T own_upstream = upstream[row * upstream_step];
  const float factor = mean ? saved[2 * rows] : 1.0f, peak = saved[row], log_total = saved[rows + row];
  const Target target(targets[row * target_step], ignore_index, cols);
  share.load(vectors, x_col, lane, LANES, target.ignored ? 0 : count, 0.0f);
  Slope slope = {target.valid ? to_float(own_upstream) * factor : CUDART_NAN_F, peak, log_total, (float)even,
                 (float)smoothing};
  if (target.ignored) slope = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int at = lane + i * LANES;
    V result;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) result.set(k, slope(share.v[i].unpack(k)));
    if (at < count) __stcs(&results[at].raw, result.raw);  // streaming: nothing here reads it again
  }
  // The thread that wrote the target's element writes it once more.
  const int64 ahead = target.col - first_col;
  bool has_target = ahead >= 0 && ahead < (int64)count * WIDTH && (unsigned)ahead / WIDTH % LANES == lane;
  if (!ALIGNED && part == 0)
#pragma unroll 1
    for (int i = lane; i < peeled.extras; i += LANES) {
      const int64 col = peeled.extra(i);
      out[col] = from_float<T>(slope(target.ignored ? 0.0f : to_float(in[col])));
      has_target |= col == target.col;
    }
  if (has_target && !target.ignored)
    out[target.col] = from_float<T>(slope.at_target(to_float(in[target.col * x_col])));
}
