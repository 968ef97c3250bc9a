// The largest |x| of a row, one block per row, by halving: right when the block is a power of two.
__global__ void absmax(const float* x, float* y, long long cols) {
  extern __shared__ float shared[];
  float peak = 0.0f;
  for (long long col = threadIdx.x; col < cols; col += blockDim.x) {
    float a = fabsf(x[blockIdx.x * cols + col]);
    peak = a > peak || isnan(a) ? a : peak;  // once NaN, no comparison is true again
  }
  shared[threadIdx.x] = peak;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      float other = shared[threadIdx.x + half];
      if (other > shared[threadIdx.x] || isnan(other)) shared[threadIdx.x] = other;
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = shared[0];
}
