// Softmax over 64 experts in bfloat16. A block takes 128 tokens: warps bring their words into shared memory, a row at a
// time; then each thread works on a token of its own; warps write the rows back.
#include <cuda_bf16.h>

constexpr int TOKENS = 128, WORDS = 32;

template <int STRIDE>
__global__ void __launch_bounds__(TOKENS)
route(const __nv_bfloat162* __restrict__ x, __nv_bfloat162* __restrict__ y, long long tokens) {
  __shared__ __nv_bfloat162 rows[TOKENS * STRIDE];
  long long first = (long long)blockIdx.x * TOKENS;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 16
  for (int i = 0; i < TOKENS; i += TOKENS / 32) {
    int row = i + warp;
    if (first + row < tokens) rows[row * STRIDE + lane] = x[(first + row) * WORDS + lane];
  }
  __syncthreads();

  if (first + threadIdx.x < tokens) {
    __nv_bfloat162* own = rows + threadIdx.x * STRIDE;
    float2 v[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) v[i] = __bfloat1622float2(own[i]);
    float top = v[0].x;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) top = fmaxf(top, fmaxf(v[i].x, v[i].y));
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      v[i].x = __expf(v[i].x - top);
      v[i].y = __expf(v[i].y - top);
      sum += v[i].x + v[i].y;
    }
    float scale = 1.0f / sum;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) own[i] = __floats2bfloat162_rn(v[i].x * scale, v[i].y * scale);
  }
  __syncthreads();

#pragma unroll 16
  for (int i = 0; i < TOKENS; i += TOKENS / 32) {
    int row = i + warp;
    if (first + row < tokens) y[(first + row) * WORDS + lane] = rows[row * STRIDE + lane];
  }
}
