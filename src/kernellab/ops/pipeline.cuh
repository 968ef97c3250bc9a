// Rows that flow through shared memory: the copy engine fetches the next ones while a block computes. From sm_90 on.
//
// A block stays until no row is left. Its warps form groups, which take a row each; the blocks of a cluster take a slice
// of their rows each. A ring of stages in shared memory holds a row of every input for each group.
//
// What the threads of a row find together is exchanged while they finish the row before:
//
//   for (flow.begin(); flow.goes_on(); flow.advance()) {
//     if (flow.has_row()) { flow.wait(); …read the row, from flow.now…; exchange.send(flow, state); }
//     if (flow.has_row_before()) { …read the row again, from flow.before, and write results…; flow.release(); }
//     if (flow.has_row()) { state = exchange.receive(flow); flow.refill(); }
//   }
#pragma once

#include "teams.cuh"

constexpr int MOST_STAGES = 8, MOST_WARPS = 16;

// A stage of the ring and the parity of its barriers.
struct Turn {
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

// An input: where its rows are, `stride` elements apart.
template <typename T>
struct Source {
  const T* rows;
  int64 stride;
};

template <typename T, int WIDTH, int VECS, int INPUTS>
struct Flow {
  typedef Vec<T, WIDTH> V;
  Source<T> inputs[INPUTS];
  V* places;                     // [stages][INPUTS][groups][slice]
  SharedBarrier *full, *empty;   // of each stage
  int64 rows, first_access;      // of this block's slice
  int count, slice;              // accesses of this block's slice, and room for them
  int threads, thread, groups, group, stages;
  unsigned rank, blocks;
  int64 row, row_before, step;   // of this group, and from one row of a group to its next
  int left;                      // how many more rows a group takes, itself included
  Turn now, before, next;
  bool begun;

  // `warps` of each group. `accesses` of a whole row.
  __device__ __forceinline__ Flow(V* places, int64 rows, int64 accesses, int warps, int stages)
      : places(places), rows(rows), stages(stages) {
    __shared__ SharedBarrier barriers[2][MOST_STAGES];
    full = barriers[0], empty = barriers[1];
    rank = cluster_rank(), blocks = cluster_blocks();
    threads = 32 * warps, slice = threads * VECS;
    groups = blockDim.x / threads, group = threadIdx.x / threads, thread = threadIdx.x % threads;
    first_access = (int64)rank * slice;
    count = accesses - first_access < slice ? (int)(accesses - first_access) : slice;
    const int64 teams = gridDim.x / blocks, first_row = (int64)(blockIdx.x / blocks) * groups;
    step = teams * groups;
    row = first_row + group;
    left = first_row < rows ? (int)((rows - first_row + step - 1) / step) : 0;
    begun = false;
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
      for (int i = 0; i < stages && i < left; i++) fetch(i, row - group + i * step);
  }

  // Called by the first warp: the rows of all groups, from `first` on.
  __device__ __forceinline__ void fetch(int stage, int64 first) {
    const int64 there = rows - first < groups ? rows - first : groups;
    const unsigned bytes = count * sizeof(V);
    if (threadIdx.x == 0) barrier_expect(&full[stage], INPUTS * (unsigned)there * bytes);
    __syncwarp();
    if (threadIdx.x < there)
#pragma unroll
      for (int input = 0; input < INPUTS; input++) {
        const T* const from = inputs[input].rows + (first + threadIdx.x) * inputs[input].stride + first_access * WIDTH;
        copy_to_shared(place(stage, input, threadIdx.x), from, bytes, &full[stage]);
      }
  }

  __device__ __forceinline__ V* place(int stage, int input, int of_group) const {
    return places + ((stage * INPUTS + input) * groups + of_group) * slice;
  }

  __device__ __forceinline__ bool has_row() const { return left > 0; }
  __device__ __forceinline__ bool has_row_before() const { return begun; }
  __device__ __forceinline__ bool goes_on() const { return left > 0 || begun; }
  // A group beyond the last row takes part in everything that the others wait for.
  __device__ __forceinline__ bool exists(int64 which) const { return which < rows; }

  __device__ __forceinline__ void wait() { barrier_wait(&full[now.stage], now.parity); }

  // The row before is not needed any more.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&empty[before.stage]);
  }

  // Fetches a row where the one before was.
  __device__ __forceinline__ void refill() {
    const int ahead = stages - 1;  // the stage before the present one is the last to be used again
    if (!begun || threadIdx.x >= 32 || left <= ahead) return;
    barrier_wait(&empty[before.stage], before.parity);
    fetch(before.stage, row - group + ahead * step);
  }

  __device__ __forceinline__ void advance() {
    begun = left > 0;
    before = now, row_before = row;
    now.advance(stages);
    row += step, left--;
  }

  // Access i of this thread: its number in the slice, whether there is one, and where it is in a row of T.
  __device__ __forceinline__ int at(int i) const { return thread + i * threads; }
  __device__ __forceinline__ bool inside(int i) const { return at(i) < count; }
  __device__ __forceinline__ int64 offset(int i) const { return (first_access + at(i)) * WIDTH; }
  __device__ __forceinline__ const V& read(const Turn& turn, int input, int i) const {
    return place(turn.stage, input, group)[at(i)];
  }
};

// What the threads of a row find together: every warp sends what it found to all blocks of the cluster. Before a warp
// sends for the turn after next, it has received from all others in the next one; they had read the memory of this turn
// by then.
template <class S>
struct Exchange {
  S (*found)[MOST_BLOCKS * MOST_WARPS];  // in shared memory, by turns: [groups][blocks][warps of a group]
  SharedBarrier* arrived;                // likewise
  unsigned turn = 0;

  template <class Flow>
  __device__ __forceinline__ explicit Exchange(const Flow& flow) {
    __shared__ S memory[2][MOST_BLOCKS * MOST_WARPS];
    __shared__ SharedBarrier barriers[2];
    found = memory, arrived = barriers;
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; i++) {
        barrier_init(&arrived[i], flow.blocks > 1 ? 1 : blockDim.x / 32);
        if (flow.blocks > 1) expect(flow, i);
      }
      barrier_fence();
    }
    cluster_sync();  // the barriers are known, and every block of the cluster runs
  }

  template <class Flow>
  __device__ __forceinline__ void expect(const Flow& flow, int place) {
    barrier_expect(&arrived[place], flow.blocks * (blockDim.x / 32) * sizeof(S));
  }

  // What a warp has found: the same in all its lanes.
  template <class Flow>
  __device__ __forceinline__ void send(const Flow& flow, S s) {
    const unsigned lane = threadIdx.x % 32, place = turn % 2;
    S* const mine = &found[place][(flow.group * flow.blocks + flow.rank) * (flow.threads / 32) + flow.thread / 32];
    if (flow.blocks > 1) {
      if (lane < flow.blocks) send_to_block(lane, mine, s, &arrived[place]);
    } else if (lane == 0) {
      *mine = s;
      barrier_arrive(&arrived[place]);
    }
  }

  // What all warps have found that have the same row.
  template <class Flow>
  __device__ __forceinline__ S receive(const Flow& flow) {
    constexpr int EACH = MOST_BLOCKS * MOST_WARPS / 32;
    const int place = turn % 2, count = flow.blocks * (flow.threads / 32);
    const S* const from = &found[place][flow.group * count];
    barrier_wait(&arrived[place], turn / 2 % 2);
    S parts[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int at = threadIdx.x % 32 + 32 * i;
      parts[i] = at < count ? from[at] : S::nothing();
    }
    if (flow.blocks > 1 && threadIdx.x == 0) expect(flow, place);
    turn++;
    return merge_warps(parts);
  }
};

template <class S, int EACH>
__device__ __forceinline__ S merge_warps(S (&parts)[EACH]) {
#pragma unroll
  for (int i = 1; i < EACH; i++) parts[0] = merge(parts[0], parts[i]);
  return merge_lanes<32>(parts[0]);
}
