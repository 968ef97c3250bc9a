// The mean of log(1 + exp(x)) along each row: a block of 256 threads per row, four elements of a thread under way.
constexpr int THREADS = 256, AT_ONCE = 4;

struct Doubles {
  static __device__ float of(float v) { return fmaxf(v, 0.0f) + log(1.0 + expf(-fabsf(v))); }
};

struct Floats {
  static __device__ float of(float v) { return fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))); }
};

__device__ float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
  return v;
}

template <typename Softplus>
__global__ void row_means(const float* __restrict__ x, float* __restrict__ y, long long n) {
  __shared__ float parts[THREADS / 32];
  const float* row = x + blockIdx.x * n;
  float sum = 0.0f;
  for (long long start = threadIdx.x; start < n; start += THREADS * AT_ONCE) {
    float v[AT_ONCE];
    // −∞ adds nothing.
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      long long at = start + i * THREADS;
      v[i] = at < n ? row[at] : -__int_as_float(0x7f800000);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) sum += Softplus::of(v[i]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = warp_sum(threadIdx.x < THREADS / 32 ? parts[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) y[blockIdx.x] = sum / (float)n;
  }
}
