// Softmax from the textbook to cuda.cu: every step changes one thing. x and y are [rows, cols] and contiguous. `cols` is
// counted in accesses of WIDTH elements.
#include "../stats.cuh"

// The textbook: one thread per row, and a loop each for the maximum, the sum and the results. Neighbouring threads access
// memory a row apart, and there are no more threads than rows: an H200 has room for 270,336. One thread adds up a whole
// row, so the sum is compensated: of 100,000 terms, a plain one would lose two digits.
template <typename T>
__global__ void softmax_thread(const T* x, T* y, int64 rows, int64 cols) {
  const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const T* in = x + row * cols;
  float peak = -INF, total = 0.0f, lost = 0.0f;
  for (int64 c = 0; c < cols; c++) peak = fmaxf(peak, to_float(in[c]));
  for (int64 c = 0; c < cols; c++) {
    const float term = exp_above(to_float(in[c]), peak) - lost, sum = total + term;
    lost = (sum - total) - term;
    total = sum;
  }
  const float scale = 1.0f / total;
  for (int64 c = 0; c < cols; c++) y[row * cols + c] = from_float<T>(exp_above(to_float(in[c]), peak) * scale);
}

struct Peak {
  float of;
  __device__ static Peak nothing() { return {-INF}; }
};
__device__ __forceinline__ Peak merge(Peak a, Peak b) { return {fmaxf(a.of, b.of)}; }

// One block per row: neighbouring threads access neighbouring memory, and all SMs have work. A row is still read three
// times. With WIDTH > 1 an access has 16 bytes.
template <typename T, int WIDTH>
__global__ void softmax_three_reads(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols) {
  const Team<false> block;
  const Vec<T, WIDTH>* in = x + block.row() * cols;
  Peak peak = Peak::nothing();
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = in[c];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) peak.of = fmaxf(peak.of, v[k]);
  }
  peak = block.merge_all(peak);
  Sums<1> total = Sums<1>::nothing();
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = in[c];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) total.of[0] += exp_above(v[k], peak.of);
  }
  const float scale = 1.0f / block.merge_all(total).of[0];
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    Vec<T, WIDTH> v = in[c];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) v.set(k, exp_above(v[k], peak.of) * scale);
    y[block.row() * cols + c] = v;
  }
}

// Online: the maximum and the sum in one loop. Where the maximum grows, the sum so far is scaled down. Two reads are left.
template <typename T, int WIDTH>
__global__ void softmax_two_reads(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols) {
  const Team<false> block;
  const Vec<T, WIDTH>* in = x + block.row() * cols;
  Stats stats = Stats::nothing();
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Share<T, WIDTH, 1, int64> share = {in[c]};
    stats = stats_of<1>(share, stats);
  }
  stats = block.merge_all(stats);
  const float scale = 1.0f / stats.total;
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    Vec<T, WIDTH> v = in[c];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) v.set(k, exp_above(v[k], stats.peak) * scale);
    y[block.row() * cols + c] = v;
  }
}

// The row stays in registers, 16 elements in each thread, and memory is read once. A block has room for 16,384 columns.
// With CLUSTER, eight blocks hold a row together and exchange their sums through each other's shared memory.
template <typename T, int WIDTH, bool CLUSTER>
__global__ void __launch_bounds__(1024) softmax_one_read(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols) {
  constexpr int VECS = 16 / WIDTH;
  const Team<CLUSTER> team;
  Share<T, WIDTH, VECS, int> share;
  share.load(x + team.row() * cols, 1, team.first(), team.step(), cols, -INF);
  const Stats stats = team.merge_all(stats_of<1>(share, Stats::nothing()));
  const float scale = 1.0f / stats.total;
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int c = team.first() + i * team.step();
    Vec<T, WIDTH> v = share.v[i];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) v.set(k, exp_above(v[k], stats.peak) * scale);
    if (c < cols) y[team.row() * cols + c] = v;
  }
}
