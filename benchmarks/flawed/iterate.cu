// STEPS multiply-adds on each element: arithmetic enough to be bound by it. A block takes `chunk` elements.
extern "C" __global__ void iterate(const float* x, float* y, long long n, long long chunk, long long steps) {
  long long begin = blockIdx.x * chunk;
  long long end = begin + chunk < n ? begin + chunk : n;
  for (long long at = begin + threadIdx.x; at < end; at += blockDim.x) {
    float v = x[at];
    for (int step = 0; step < (int)steps; ++step) v = v * 0.998f + 0.002f;
    y[at] = v;
  }
}
