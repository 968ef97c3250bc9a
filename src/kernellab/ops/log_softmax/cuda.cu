// The logarithm of softmax over the last dim: ../rows.cuh moves the data.
#include "../rows.cuh"
#include "../stats.cuh"

struct LogSoftmax {
  static constexpr int INPUTS = 1;
  typedef Stats State;
  template <class S> using Held = HeldShare<LogSoftmax, S>;
  struct Numbers {
    float peak, log_total;
  };

  __device__ static float filling() { return -INF; }

  template <class S>
  __device__ __forceinline__ static Stats absorb(const S& x, const S&, Stats stats) {
    return stats_of<1>(x, stats);
  }
  __device__ static unsigned zero(Stats stats) { return stats.hidden_zero(); }
  __device__ static Numbers combine(Stats stats) { return {stats.peak, logf(stats.total)}; }
  // The difference is taken before the logarithm is subtracted, which is small.
  __device__ static float finish(float x, float, Numbers row) { return (x - row.peak) - row.log_total; }
};

// With y the result, the gradient of x is dy - exp(y)·Σ dy.
struct LogSoftmaxGradient {
  static constexpr int INPUTS = 2;
  typedef Sums<1> State;
  template <class S> using Held = HeldShare<LogSoftmaxGradient, S>;

  __device__ static float filling() { return 0.0f; }

  template <class S>
  __device__ __forceinline__ static State absorb(const S& dy, const S&, State sum) {
#pragma unroll
    for (int i = 0; i < S::ACCESSES; i++)
#pragma unroll
      for (int k = 0; k < S::ELEMENTS; k++) sum.of[0] += dy.v[i][k];
    return sum;
  }
  __device__ static unsigned zero(State) { return 0; }
  __device__ static float combine(State sum) { return sum.of[0]; }
  __device__ static float finish(float dy, float y, float total) { return dy - exp2_fast(y * LOG2E) * total; }
};
