// A block of fixed work that keeps its SM busy alone: eight independent chains of multiply-adds per thread.

constexpr int kChains = 8, kUnrolled = 8;

// With at most 32 registers as many threads fit as an SM holds: shared memory alone decides how many blocks do.
extern "C" __global__ void __launch_bounds__(1024, 2) busy(float* out, long long steps) {
  float chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = threadIdx.x + i;
  const float factor = 0.999f, term = 0.001f * blockIdx.x;
  for (long long step = 0; step < steps; ++step) {
#pragma unroll
    for (int j = 0; j < kUnrolled; ++j) {
#pragma unroll
      for (int i = 0; i < kChains; ++i) chain[i] = fmaf(chain[i], factor, term);
    }
  }
  float sum = 0.0f;
  for (int i = 0; i < kChains; ++i) sum += chain[i];
  if (sum == 0x1.23456p-100f) *out = sum;  // never; but the compiler cannot know, and keeps the work
}
