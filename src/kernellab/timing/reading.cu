// Reads a buffer several times in one launch and writes nothing: what a memory, or a cache that holds it, delivers.

// The loads go to L2 (.cg): L1 would hold a part of what is asked for again.
extern "C" __global__ void read_all(const float4* __restrict__ data, long long count, long long passes, float* out) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  float sum = 0.0f;
  for (long long pass = 0; pass < passes; ++pass) {
    // Each pass begins with another block's share, so that no SM asks for its own data again.
    const long long block = (blockIdx.x + pass * 7) % gridDim.x;
    long long at = block * blockDim.x + threadIdx.x;
    for (; at + 3 * stride < count; at += 4 * stride) {
      const float4 a = __ldcg(data + at), b = __ldcg(data + at + stride);
      const float4 c = __ldcg(data + at + 2 * stride), d = __ldcg(data + at + 3 * stride);
      sum += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
      sum += c.x + c.y + c.z + c.w + d.x + d.y + d.z + d.w;
    }
    for (; at < count; at += stride) {
      const float4 a = __ldcg(data + at);
      sum += a.x + a.y + a.z + a.w;
    }
  }
  if (sum == 0x1.23456p-100f) *out = sum;  // never; but the compiler cannot know, and keeps the loads
}
