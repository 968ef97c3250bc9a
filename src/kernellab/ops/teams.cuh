// Rows of which teams of threads hold a share each: some lanes of a warp, a block, or a cluster of blocks. Independent of
// any op: what a team adds up or merges is a struct S of floats, with merge(S, S), which must not depend on the order of
// its arguments, and S::nothing(), which changes nothing when it is merged.
#pragma once

#include "vectors.cuh"

constexpr int MOST_BLOCKS = 8;  // in a cluster

// Every lane gets the merger of its group of LANES neighbours.
template <int LANES, class S>
__device__ __forceinline__ S merge_lanes(S s) {
#pragma unroll
  for (int apart = LANES / 2; apart > 0; apart /= 2) {
    S other;
#pragma unroll
    for (int i = 0; i < sizeof(S) / sizeof(float); i++)
      reinterpret_cast<float*>(&other)[i] = __shfl_xor_sync(~0u, reinterpret_cast<float*>(&s)[i], apart);
    s = merge(s, other);
  }
  return s;
}

// The accesses of a row that a thread takes: of those that begin with element `from` of the row, every `step`-th from
// `first` on and before `end`. Index is int where a row is known to be short enough: 64-bit indices would take registers
// from the row.
template <typename Index>
struct Part {
  int64 from;
  Index first, step, end;
};

// A thread's share of a row: VECS accesses, `step` apart, kept as they lie in memory. Beyond the row: `beyond`.
template <typename T, int WIDTH, int VECS, typename Index>
struct Share {
  typedef Vec<T, WIDTH> V;
  static constexpr int ACCESSES = VECS, ELEMENTS = WIDTH, BITS = 8 * sizeof(T);
  V v[VECS];

  __device__ __forceinline__ void load(const V* x, int64 x_col, Index first, Index step, Index cols, float beyond) {
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = first + i * step;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) v[i].set(k, beyond);
      if (at < cols) v[i] = WIDTH > 1 ? x[at] : x[at * x_col];
    }
  }
  __device__ __forceinline__ void load(const T* row, int64 col_stride, const Part<Index>& part, float beyond) {
    load(reinterpret_cast<const V*>(row + part.from), col_stride, part.first, part.step, part.end, beyond);
  }
};

// The elements of a contiguous row that start on a multiple of 16 bytes, as accesses of WIDTH elements. Those before
// and after, fewer than WIDTH each, are extra: they are taken one at a time. Where rows are ALIGNED, and with WIDTH 1,
// there are none.
template <typename T, int WIDTH, bool ALIGNED = WIDTH == 1>
struct Peeled {
  int64 cols, head, accesses;
  int extras;

  __device__ __forceinline__ Peeled(const T* row, int64 cols) : cols(cols) {
    const int64 ahead = (0 - (unsigned long long)row) % 16 / sizeof(T);
    head = ALIGNED ? 0 : ahead < cols ? ahead : cols;
    accesses = (unsigned long long)(cols - head) / WIDTH;
    extras = ALIGNED ? 0 : cols - accesses * WIDTH;
  }
  // The column of extra element i.
  __device__ int64 extra(int64 i) const { return i < head ? i : accesses * WIDTH + i; }

  // What thread `first` of a team takes, of which `step` threads take all accesses in turns.
  template <typename Index>
  __device__ __forceinline__ Part<Index> part(Index first, Index step) const {
    return {head, first, step, (Index)accesses};
  }
  // The extra element that it takes, if there is one for it: an access of one element.
  template <typename Index>
  __device__ __forceinline__ Part<Index> extra_part(Index first) const {
    return {0, (Index)extra(first), 0, (Index)(first < extras ? cols : 0)};
  }
};

// Numbers that a team adds up.
template <int N>
struct Sums {
  float of[N];

  __device__ static Sums nothing() {
    Sums s;
#pragma unroll
    for (int i = 0; i < N; i++) s.of[i] = 0.0f;
    return s;
  }
};

template <int N>
__device__ __forceinline__ Sums<N> merge(Sums<N> a, Sums<N> b) {
#pragma unroll
  for (int i = 0; i < N; i++) a.of[i] += b.of[i];
  return a;
}

// LANES neighbouring threads of a warp. All threads of the warp have to take part in a merger.
template <int LANES>
struct Lanes {
  __device__ int first() const { return threadIdx.x % LANES; }
  __device__ int step() const { return LANES; }

  template <class S>
  __device__ __forceinline__ S merge_all(S s, unsigned) const {
    return merge_lanes<LANES>(s);
  }
};

// One block, or one cluster of blocks (sm_90 on).
//
// Blocks of a cluster send each other messages, which a barrier in the receiver's shared memory counts. A barrier of all
// threads of the cluster would first wait for every access to memory that is under way. A block has at most MOST_WARPS.
template <bool CLUSTER, int MOST_WARPS = 32>
struct Team {
  unsigned rank = 0, blocks = 1;
  SharedBarrier* arrived;  // by turns

  __device__ __forceinline__ Team() {
    if constexpr (CLUSTER) {
      __shared__ SharedBarrier barriers[2];
      arrived = barriers;
      rank = cluster_rank();
      blocks = cluster_blocks();
      if (threadIdx.x < 2) {
        barrier_init(&arrived[threadIdx.x], 1);
        barrier_fence();
      }
      __syncwarp();
      cluster_arrive();  // other blocks may send messages only after they know that this one is ready
    }
  }
  __device__ int64 row() const { return blockIdx.x / blocks; }    // of the first row
  __device__ int64 teams() const { return gridDim.x / blocks; }
  __device__ int first() const { return rank * blockDim.x + threadIdx.x; }
  __device__ int step() const { return blocks * blockDim.x; }

  // Every thread of the team gets the merger of all of them. `turn` counts the calls, from 0: two consecutive calls use
  // different memory. So whoever writes for a call has received in the one before, and nobody still reads what was
  // written for the one before that.
  template <class S>
  __device__ __forceinline__ S merge_all(S s, unsigned turn = 0) const {
    __shared__ S of_warps[2][CLUSTER ? MOST_WARPS * MOST_BLOCKS : MOST_WARPS];
    S* const found = of_warps[turn % 2];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, count = blocks * warps;
    s = merge_lanes<32>(s);
    if constexpr (CLUSTER) {
      SharedBarrier* const barrier = &arrived[turn % 2];
      if (threadIdx.x == 0) barrier_expect(barrier, count * sizeof(S));
      if (turn == 0) cluster_wait();
      if (lane < blocks) send_to_block(lane, &found[rank * warps + warp], s, barrier);
      barrier_wait(barrier, turn / 2 % 2);
    } else {
      if (lane == 0) found[warp] = s;
      __syncthreads();
    }
    s = lane < count ? found[lane] : S::nothing();
    if constexpr (CLUSTER)
      for (unsigned at = lane + 32; at < count; at += 32) s = merge(s, found[at]);
    return merge_lanes<32>(s);
  }
};
