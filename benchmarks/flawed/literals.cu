// GeLU's tanh form, with the literals as C++ reads them (double) and as they were meant.
extern "C" __global__ void doubles(const float4* x, float4* y, long long n) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float4 v = x[at];
  float* e = reinterpret_cast<float*>(&v);
#pragma unroll
  for (int i = 0; i < 4; ++i) e[i] = 0.5 * e[i] * (1.0 + tanh(0.7978845608028654 * (e[i] + 0.044715 * e[i] * e[i] * e[i])));
  y[at] = v;
}

extern "C" __global__ void floats(const float4* x, float4* y, long long n) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float4 v = x[at];
  float* e = reinterpret_cast<float*>(&v);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    e[i] = 0.5f * e[i] * (1.0f + tanhf(0.7978845608028654f * (e[i] + 0.044715f * e[i] * e[i] * e[i])));
  y[at] = v;
}
