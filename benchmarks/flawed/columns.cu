// Softmax over the 64 rows of each column: a thread keeps its column in registers, if it may have enough of them.
constexpr int ROWS = 64;

__device__ __forceinline__ void column_softmax(const float* __restrict__ x, float* __restrict__ y, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float v[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) v[row] = x[(long long)row * columns + column];
  float top = v[0];
#pragma unroll
  for (int row = 1; row < ROWS; ++row) top = fmaxf(top, v[row]);
  float sum = 0.0f;
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    v[row] = __expf(v[row] - top);
    sum += v[row];
  }
  float scale = 1.0f / sum;
#pragma unroll
  for (int row = 0; row < ROWS; ++row) y[(long long)row * columns + column] = v[row] * scale;
}

extern "C" __global__ void __launch_bounds__(1024, 2) cramped(const float* x, float* y, long long columns) {
  column_softmax(x, y, (int)columns);
}

extern "C" __global__ void __launch_bounds__(256, 2) roomy(const float* x, float* y, long long columns) {
  column_softmax(x, y, (int)columns);
}
