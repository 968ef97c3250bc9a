// Instructions that CUDA C++ has no function for.
#pragma once

// 2^x in one instruction (relative error 2^-22); results below 2^-126 become 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Both words of a product in one instruction. A product of 64-bit numbers takes more, even if both fit 32 bits.
__device__ __forceinline__ unsigned long long multiply_wide(unsigned a, unsigned b) {
  unsigned long long product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
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

// A barrier in shared memory. It completes a phase when as many threads have arrived as it counts, and as many bytes have
// been copied as were announced. Phases have a parity: the first has 0.
typedef unsigned long long SharedBarrier;

__device__ __forceinline__ void barrier_init(SharedBarrier* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(count) : "memory");
}
// What follows sees the barriers that were initialized, the copy engine included.
__device__ __forceinline__ void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void barrier_arrive(SharedBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}
// Arrives, and announces bytes that will be copied.
__device__ __forceinline__ void barrier_expect(SharedBarrier* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(SharedBarrier* barrier, unsigned parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
}

// Writes a struct of floats to the place in another block's shared memory where `here` is in this block's, and counts its
// bytes at that block's barrier. No barrier of all threads, for which outstanding stores would have to be waited for.
template <class S>
__device__ __forceinline__ void send_to_block(unsigned block, S* here, S value, SharedBarrier* barrier) {
  unsigned there, remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(here)), "r"(block));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(remote) : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(block));
  if constexpr (alignof(S) == 8) {
#pragma unroll
    for (int i = 0; i < sizeof(S) / 8; i++)
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                   :: "r"(there + 8 * i), "l"(reinterpret_cast<unsigned long long*>(&value)[i]), "r"(remote) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < sizeof(S) / 4; i++)
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                   :: "r"(there + 4 * i), "r"(reinterpret_cast<unsigned*>(&value)[i]), "r"(remote) : "memory");
  }
}

// Copies neighbouring bytes to shared memory, and counts them at the barrier. All are multiples of 16.
__device__ __forceinline__ void copy_to_shared(void* to, const void* from, unsigned bytes, SharedBarrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                  "r"((unsigned)__cvta_generic_to_shared(barrier))
               : "memory");
}
