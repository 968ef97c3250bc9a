// y = 2x + 1 over float4: one 16-byte access per thread.
extern "C" __global__ void wide(const float4* x, float4* y, long long n) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) {
    float4 v = x[at];
    y[at] = make_float4(2.0f * v.x + 1.0f, 2.0f * v.y + 1.0f, 2.0f * v.z + 1.0f, 2.0f * v.w + 1.0f);
  }
}
