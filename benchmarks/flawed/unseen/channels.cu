// y[b][s][c] = x[b][c][s], in blocks of 256 threads.

// A block takes 256 places of one channel.
extern "C" __global__ void direct(const float* __restrict__ x, float* __restrict__ y, long long C, long long S) {
  unsigned chunks = (unsigned)((S + 255) / 256);
  unsigned plane = blockIdx.x / chunks;
  long long s = (long long)(blockIdx.x % chunks) * 256 + threadIdx.x;
  long long b = plane / (unsigned)C, c = plane % (unsigned)C;
  if (s < S) y[(b * S + s) * C + c] = x[(b * C + c) * S + s];
}

// A block takes 32 places of 32 channels. The odd row keeps a column of the tile in 32 banks.
extern "C" __global__ void tiled(const float* __restrict__ x, float* __restrict__ y, long long C, long long S) {
  __shared__ float tile[32][33];
  unsigned across = (unsigned)((S + 31) / 32), down = (unsigned)((C + 31) / 32);
  long long s0 = (long long)(blockIdx.x % across) * 32;
  long long c0 = (long long)(blockIdx.x / across % down) * 32;
  long long b = blockIdx.x / across / down;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
    int i = turn * 8 + warp;
    if (c0 + i < C && s0 + lane < S) tile[i][lane] = x[(b * C + c0 + i) * S + s0 + lane];
  }
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
    int i = turn * 8 + warp;
    if (s0 + i < S && c0 + lane < C) y[(b * S + s0 + i) * C + c0 + lane] = tile[lane][i];
  }
}
