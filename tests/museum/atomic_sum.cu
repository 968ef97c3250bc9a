// Σ x over a row in pieces: each block sums one piece of one row, and either keeps it apart or adds it at once.
constexpr int THREADS = 256, PER_THREAD = 4;

__global__ void sum_pieces(const float* x, float* out, long long cols, long long pieces, long long atomically) {
  __shared__ float shared[THREADS];
  long long row = blockIdx.y, piece = blockIdx.x;
  float total = 0.0f;
  for (int k = 0; k < PER_THREAD; ++k) {
    long long col = (piece * PER_THREAD + k) * THREADS + threadIdx.x;
    if (col < cols) total += x[row * cols + col];
  }
  shared[threadIdx.x] = total;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  if (atomically)
    atomicAdd(out + row, shared[0]);
  else
    out[row * pieces + piece] = shared[0];
}
