// Softmax over the last dim: ../rows.cuh moves the data.
#include "../rows.cuh"
#include "../stats.cuh"

// A thread's exponentials, above its own maximum: each is computed once. They take twice the registers of a 16-bit row.
template <class S>
struct Exponentials {
  float of[S::ACCESSES][S::ELEMENTS], peak;

  __device__ __forceinline__ Stats take(const S& x, const S&) {
    Stats mine = Stats::nothing();
#pragma unroll
    for (int i = 0; i < S::ACCESSES; i++)
#pragma unroll
      for (int k = 0; k < S::ELEMENTS; k++) mine.peak = fmaxf(mine.peak, x.v[i][k]);
    const float base = mine.base();
#pragma unroll
    for (int i = 0; i < S::ACCESSES; i++)
#pragma unroll
      for (int k = 0; k < S::ELEMENTS; k++) {
        of[i][k] = exp_above(x.v[i][k], base);
        mine.total += of[i][k];
      }
    peak = mine.peak;
    return mine;
  }

  __device__ __forceinline__ auto results(Stats row) const {
    const float factor = exp_above(peak, row.base()) / row.total;
    return [this, factor](int i, int k) { return of[i][k] * factor; };
  }
};

struct Softmax {
  static constexpr int INPUTS = 1;
  typedef Stats State;
  // With more accesses there are registers for the row alone: exponentials are computed again.
  template <class S> using Held = typename Choose<(S::ACCESSES <= 4), Exponentials<S>, HeldShare<Softmax, S>>::type;
  struct Numbers {
    float base, scale;
  };

  __device__ static float filling() { return -INF; }

  template <class S>
  __device__ __forceinline__ static Stats absorb(const S& x, const S&, Stats stats) {
    return stats_of<1>(x, stats);
  }
  __device__ static unsigned zero(Stats stats) { return stats.hidden_zero(); }
  __device__ static Numbers combine(Stats stats) { return {stats.base(), 1.0f / stats.total}; }
  __device__ static float finish(float x, float, Numbers row) { return exp_above(x, row.base) * row.scale; }
};

// With y the result, the gradient of x is y·(dy - Σ dy·y).
struct SoftmaxGradient {
  static constexpr int INPUTS = 2;
  typedef Sums<1> State;
  template <class S> using Held = HeldShare<SoftmaxGradient, S>;

  __device__ static float filling() { return 0.0f; }

  template <class S>
  __device__ __forceinline__ static State absorb(const S& dy, const S& y, State sum) {
#pragma unroll
    for (int i = 0; i < S::ACCESSES; i++)
#pragma unroll
      for (int k = 0; k < S::ELEMENTS; k++) sum.of[0] += dy.v[i][k] * y.v[i][k];
    return sum;
  }
  // The sign bit of a square. That of NaN may be 1, but then the whole row is NaN.
  __device__ static unsigned zero(State sum) { return __float_as_uint(sum.of[0] * sum.of[0]) >> 31; }
  __device__ static float combine(State sum) { return sum.of[0]; }
  __device__ static float finish(float dy, float y, float total) { return y * (dy - total); }
};
