// Rows that flow through shared memory: the copy engine fetches the next ones while a block computes. From sm_90 on.
//
// A block stays until no row is left. Its warps form groups, which take a row each; the blocks of a cluster take a slice
// of their rows each. A ring of stages in shared memory holds a row of every input for each group.
//
// What the threads of a row find together is exchanged while they finish the row before:
//
//   for (flow.begin(); flow.goes_on(); flow.advance()) {
//     if (flow.has_row()) { flow.wait(); …read the row from flow.now…; exchange.send(found); }
//     if (flow.has_row_before()) …write the results of the row before…
//     if (flow.has_row()) found = exchange.receive();
//   }
//
// A stage is released when nothing is read from it any more, and then filled again.
#pragma once

#include "teams.cuh"

constexpr int MOST_STAGES = 8, MOST_WARPS = 16;

// A stage of the ring: its number, the parity of its barriers, and where this thread's first access is in it.
template <class V>
struct Stage {
  int number;
  unsigned parity;
  V* mine;
};

// An input: where its rows are, `stride` elements apart.
template <typename T>
struct Source {
  const T* rows;
  int64 stride;
};

// A warp's accesses are neighbours, so that a thread's are a constant distance apart: i stands for the i-th of a thread.
template <typename T, int WIDTH, int VECS, int INPUTS>
struct Flow {
  typedef Vec<T, WIDTH> V;
  Source<T> inputs[INPUTS];
  V* places;                    // [stages][INPUTS][groups][slice]
  SharedBarrier *full, *empty;  // of each stage
  int slice, count;             // accesses of this block's slice: room for them, and how many there are
  int threads, groups, group, thread, stages;
  unsigned rank, blocks;
  int64 rows, row, step;        // `row` of this group, and the distance to its next
  int first;                    // access of this thread in the slice
  int64 offset;                 // of its first element in a row
  int inside;                   // how many accesses this thread has
  int left;                     // rows that the first group still takes
  bool begun = false;
  Stage<V> now, before;

  // `warps` of each group. `accesses` of a whole row. What is in a stage beyond the end of the row is `beyond`.
  __device__ __forceinline__ Flow(V* places, int64 rows, int64 accesses, int warps, int stages, float beyond)
      : places(places), stages(stages), rows(rows) {
    __shared__ SharedBarrier barriers[2][MOST_STAGES];
    full = barriers[0], empty = barriers[1];
    rank = cluster_rank(), blocks = cluster_blocks();
    threads = 32 * warps, slice = threads * VECS;
    groups = blockDim.x / threads, group = threadIdx.x / threads, thread = threadIdx.x % threads;
    const int64 before_slice = (int64)rank * slice;
    count = accesses - before_slice < slice ? (int)(accesses - before_slice) : slice;
    first = thread / 32 * (32 * VECS) + thread % 32;
    inside = min(first < count ? (count - first + 31) / 32 : 0, VECS);
    offset = (before_slice + first) * WIDTH;
    const int64 teams = gridDim.x / blocks, first_row = (int64)(blockIdx.x / blocks) * groups;
    step = teams * groups;
    row = first_row + group;
    left = first_row < rows ? (int)((rows - first_row + step - 1) / step) : 0;
    const V filled = Vec<T, WIDTH>::filled(beyond);
    for (int i = 0; i < stages * INPUTS * groups; i++)
      for (int at = count + threadIdx.x; at < slice; at += blockDim.x) places[i * slice + at] = filled;
    now = {0, 0, places + group * slice + first};
    if (threadIdx.x < stages) {
      barrier_init(&full[threadIdx.x], 1);
      barrier_init(&empty[threadIdx.x], blockDim.x / 32);
      barrier_fence();
    }
    __syncthreads();
  }

  // Fetches the first rows.
  __device__ __forceinline__ void begin() {
    if (threadIdx.x < 32)
#pragma unroll 1
      for (int i = 0; i < stages && i < left; i++) fetch(i, row - group + i * step);
  }

  // Called by the first warp: the rows of all groups, from `first` on.
  __device__ __forceinline__ void fetch(int stage, int64 first) {
    const int there = rows - first < groups ? (int)(rows - first) : groups;
    const unsigned bytes = count * sizeof(V);
    if (threadIdx.x == 0) barrier_expect(&full[stage], INPUTS * there * bytes);
    __syncwarp();
    if (threadIdx.x < there)
#pragma unroll
      for (int input = 0; input < INPUTS; input++) {
        const Source<T>& from = inputs[input];
        copy_to_shared(places + ((stage * INPUTS + input) * groups + threadIdx.x) * slice,
                       from.rows + (first + threadIdx.x) * from.stride + (int64)rank * slice * WIDTH, bytes, &full[stage]);
      }
  }

  __device__ __forceinline__ bool has_row() const { return left > 0; }
  __device__ __forceinline__ bool has_row_before() const { return begun; }
  __device__ __forceinline__ bool goes_on() const { return left > 0 || begun; }
  // A group beyond the last row takes part in everything that the others wait for.
  __device__ __forceinline__ bool row_exists() const { return row < rows; }
  __device__ __forceinline__ bool row_before_exists() const { return row - step < rows; }

  __device__ __forceinline__ V& at(const Stage<V>& stage, int input, int i) const {
    return stage.mine[input * groups * slice + 32 * i];
  }

  __device__ __forceinline__ void wait() { barrier_wait(&full[now.number], now.parity); }

  // What is in a stage is not needed any more.
  __device__ __forceinline__ void release(const Stage<V>& stage) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&empty[stage.number]);
  }

  // Fetches the row that is `ahead` of the present one to a stage that all have released, or will.
  __device__ __forceinline__ void refill(const Stage<V>& stage, int ahead) {
    if (threadIdx.x >= 32 || left <= ahead) return;
    barrier_wait(&empty[stage.number], stage.parity);
    fetch(stage.number, row - group + ahead * step);
  }

  __device__ __forceinline__ void advance() {
    begun = left > 0;
    before = now;
    row += step, left--;
    now.number++, now.mine += INPUTS * groups * slice;
    if (now.number == stages) now = {0, now.parity ^ 1, now.mine - stages * INPUTS * groups * slice};
  }
};

// What some warps found: each lane has EACH of them.
template <class S, int EACH>
__device__ __forceinline__ S merge_warps(S (&parts)[EACH]) {
#pragma unroll
  for (int i = 1; i < EACH; i++) parts[0] = merge(parts[0], parts[i]);
  return merge_lanes<32>(parts[0]);
}

// What the threads of a row find together: every warp sends what it found to all blocks of the cluster. Before a warp
// sends for the turn after next, it has received from all others in the next one; they had read the memory of this turn
// by then.
template <class S, bool CLUSTER>
struct Exchange {
  static constexpr int MOST = (CLUSTER ? MOST_BLOCKS : 1) * MOST_WARPS, EACH = CLUSTER ? MOST / 32 : 1;
  S *found, *mine;         // in shared memory: [2 turns][groups][blocks][warps of a group]
  SharedBarrier* arrived;  // likewise
  int count;               // of those that have a row together
  unsigned turn = 0;

  template <class Flow>
  __device__ __forceinline__ explicit Exchange(const Flow& flow) {
    __shared__ S memory[2 * MOST];
    __shared__ SharedBarrier barriers[2];
    const int warps = flow.threads / 32;
    arrived = barriers, count = flow.blocks * warps;
    found = memory + flow.group * count, mine = found + flow.rank * warps + flow.thread / 32;
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; i++) {
        barrier_init(&arrived[i], CLUSTER ? 1 : blockDim.x / 32);
        if (CLUSTER) expect(i);
      }
      barrier_fence();
    }
    if constexpr (CLUSTER) {
      cluster_sync();  // the barriers are known, and every block of the cluster runs
    } else {
      __syncthreads();
    }
  }

  // A thread expects what all groups will send.
  __device__ __forceinline__ void expect(int place) {
    barrier_expect(&arrived[place], cluster_blocks() * (blockDim.x / 32) * sizeof(S));
  }

  // What a warp has found: the same in all its lanes.
  __device__ __forceinline__ void send(S s) {
    const unsigned lane = threadIdx.x % 32, place = turn % 2;
    if constexpr (CLUSTER) {
      if (lane < cluster_blocks()) send_to_block(lane, mine + place * MOST, s, &arrived[place]);
    } else if (lane == 0) {
      mine[place * MOST] = s;
      barrier_arrive(&arrived[place]);
    }
  }

  // What all warps have found that have the same row.
  __device__ __forceinline__ S receive() {
    const int place = turn % 2;
    barrier_wait(&arrived[place], turn / 2 % 2);
    S parts[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int at = threadIdx.x % 32 + 32 * i;
      parts[i] = at < count ? found[place * MOST + at] : S::nothing();
    }
    if (CLUSTER && threadIdx.x == 0) expect(place);
    turn++;
    return merge_warps(parts);
  }
};
