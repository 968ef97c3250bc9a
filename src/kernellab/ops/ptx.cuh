// Instructions that CUDA C++ has no function for.
#pragma once

// 2^x in one instruction (relative error 2^-22); results below 2^-126 become 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Clusters, which GPUs have from sm_90 on: the number of this block in its cluster, and how many blocks it has.
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ unsigned cluster_blocks() {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

// A barrier of all threads of a cluster, in two halves; it orders no accesses of memory before it.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// A barrier of all threads of a cluster: what was written before it is read after it.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Writes a struct of floats to the place in another block's shared memory where `here` is in this block's.
template <class S>
__device__ __forceinline__ void store_in_block(unsigned block, S* here, S value) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(here)), "r"(block));
#pragma unroll
  for (int i = 0; i < sizeof(S) / sizeof(float); i++)
    asm volatile("st.shared::cluster.f32 [%0], %1;"
                 :: "r"(there + 4 * i), "f"(reinterpret_cast<float*>(&value)[i]) : "memory");
}
