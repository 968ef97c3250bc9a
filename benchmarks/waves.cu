// Blocks of equal work that keep their SM busy: eight independent chains of multiply-adds per thread.

constexpr int kChains = 8, kUnrolled = 8;

// With at most 32 registers, eight blocks of 256 threads would fit: shared memory alone decides how many do.
extern "C" __global__ void __launch_bounds__(256, 8) work(float* out, long long steps) {
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
