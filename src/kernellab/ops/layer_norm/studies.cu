// Layer norm without weight and bias, from the textbook to ../norms.cuh: every step changes one thing. x and y are
// [rows, cols] and contiguous. `cols` is counted in accesses of WIDTH elements. Blocks take a row each.
#include "../norms.cuh"

__device__ __forceinline__ float add_all(const Team<false>& block, float value, unsigned turn) {
  return block.merge_all(Sums<1>{{value}}, turn).of[0];
}

template <typename T, int WIDTH>
__device__ __forceinline__ Vec<T, WIDTH> normalized(Vec<T, WIDTH> v, float mean, float rstd) {
#pragma unroll
  for (int k = 0; k < WIDTH; k++) v.set(k, (v[k] - mean) * rstd);
  return v;
}

// The textbook: the mean, then the squared distances from it, then the results. A row is read three times.
template <typename T, int WIDTH>
__global__ void layer_norm_three_reads(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols, float eps) {
  const Team<false> block;
  const Vec<T, WIDTH>* in = x + block.row() * cols;
  const float count = cols * WIDTH;
  float sum = 0.0f, squares = 0.0f;
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = in[c];
    for (int k = 0; k < WIDTH; k++) sum += v[k];
  }
  const float mean = add_all(block, sum, 0) / count;
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = in[c];
    for (int k = 0; k < WIDTH; k++) squares += (v[k] - mean) * (v[k] - mean);
  }
  const float rstd = rsqrtf(add_all(block, squares, 1) / count + eps);
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x)
    y[block.row() * cols + c] = normalized(in[c], mean, rstd);
}

// The variance as E[x²] - E[x]²: both sums in one loop, two reads are left. Wrong on purpose: where the mean is large
// beside the deviation, the two are almost equal, and their difference is what rounding left over.
template <typename T, int WIDTH>
__global__ void layer_norm_squares(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols, float eps) {
  const Team<false> block;
  const Vec<T, WIDTH>* in = x + block.row() * cols;
  const float count = cols * WIDTH;
  Sums<2> sums = Sums<2>::nothing();
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = in[c];
    for (int k = 0; k < WIDTH; k++) sums.of[0] += v[k], sums.of[1] += v[k] * v[k];
  }
  sums = block.merge_all(sums);
  const float mean = sums.of[0] / count, rstd = rsqrtf(sums.of[1] / count - mean * mean + eps);
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x)
    y[block.row() * cols + c] = normalized(in[c], mean, rstd);
}

// Welford: a thread corrects its mean, and the squared distances from it, with every access. No large numbers are
// subtracted, and two reads are enough. The division per access costs less the wider the access is.
template <typename T, int WIDTH>
__global__ void layer_norm_welford(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols, float eps) {
  const Team<false> block;
  const Vec<T, WIDTH>* in = x + block.row() * cols;
  const float count = cols * WIDTH;
  float seen = 0.0f, mean = 0.0f, squares = 0.0f;
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = in[c];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) sum += v[k];
    const float mean_here = sum / WIDTH, apart = mean_here - mean, both = seen + WIDTH;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) squares += (v[k] - mean_here) * (v[k] - mean_here);
    squares += apart * (seen * WIDTH / both) * apart;  // in this order 0·inf cannot occur
    mean += apart * (WIDTH / both);
    seen = both;
  }
  const float row_mean = add_all(block, mean * seen, 0) / count;
  squares += seen * (mean - row_mean) * (mean - row_mean);
  const float rstd = rsqrtf(add_all(block, squares, 1) / count + eps);
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x)
    y[block.row() * cols + c] = normalized(in[c], row_mean, rstd);
}

// The row stays in shared memory, and the textbook's loops walk over that: memory is read once. The longer the row, the
// fewer blocks fit on an SM.
template <typename T, int WIDTH>
__global__ void layer_norm_shared(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols, float eps) {
  const Team<false> block;
  extern __shared__ uint4 shared[];  // aligned to 16 bytes
  Vec<T, WIDTH>* const row = reinterpret_cast<Vec<T, WIDTH>*>(shared);
  const float count = cols * WIDTH;
  float sum = 0.0f, squares = 0.0f;
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = x[block.row() * cols + c];
    row[c] = v;  // no other thread reads it, so no barrier is needed
    for (int k = 0; k < WIDTH; k++) sum += v[k];
  }
  const float mean = add_all(block, sum, 0) / count;
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x) {
    const Vec<T, WIDTH> v = row[c];
    for (int k = 0; k < WIDTH; k++) squares += (v[k] - mean) * (v[k] - mean);
  }
  const float rstd = rsqrtf(add_all(block, squares, 1) / count + eps);
  for (int64 c = threadIdx.x; c < cols; c += blockDim.x)
    y[block.row() * cols + c] = normalized(row[c], mean, rstd);
}

// The row stays in registers, 16 elements in each thread: no shared memory for it, and all loads of a thread are under
// way at once.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(1024)
layer_norm_registers(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 cols, float eps) {
  constexpr int VECS = 16 / WIDTH;
  const Team<false> block;
  const float count = cols * WIDTH;
  Share<T, WIDTH, VECS, int> share;
  share.load(x + block.row() * cols, 1, threadIdx.x, blockDim.x, cols, 0.0f);
  float sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < VECS; i++)
#pragma unroll
    for (int k = 0; k < WIDTH; k++) sum += share.v[i][k];
  const float mean = add_all(block, sum, 0) / count;
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const bool inside = threadIdx.x + i * blockDim.x < cols;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) squares += inside ? (share.v[i][k] - mean) * (share.v[i][k] - mean) : 0.0f;
  }
  const float rstd = rsqrtf(add_all(block, squares, 1) / count + eps);
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int64 c = threadIdx.x + i * blockDim.x;
    if (c < cols) y[block.row() * cols + c] = normalized(share.v[i], mean, rstd);
  }
}
