// c = a·b on Hopper: blocks stay, one warp has the copy engine bring tiles, two warpgroups multiply. hopper.cuh has the
// instructions and how tiles lie in shared memory, matmul_wgmma.py what was checked.
#include "hopper.cuh"

constexpr int WARPGROUP = 128, CONSUMERS = 2, CONSUMER_WARPS = CONSUMERS * 4;

// The tile of a cluster of blocks: `group` rows of tiles are walked through column by column, so that blocks that run at
// the same time share operands in the L2 cache.
struct Tile {
  int m, n;
};
__device__ __forceinline__ Tile tile_at(int index, int rows, int columns, int group) {
  const int before = index / (group * columns) * group, height = min(rows - before, group);
  const int inside = index % (group * columns);
  return {before + inside % height, inside / height};
}

// `A_BY_K`: rows of a's memory run along k (a is row-major), else along m; `B_BY_K`: b is column-major. A block computes
// BM × BN, a cluster of CLUSTER blocks as many tiles below each other, for which each brings a part of b's tile to all.
// Dynamic shared memory: 1023 bytes to align, the stages, and what is written of c, OUT_BLOCKS blocks for a warpgroup.
template <class T, bool A_BY_K, bool B_BY_K, int BM, int BN, int STAGES, int CLUSTER, int OUT_BLOCKS>
__global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
matmul(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
       int rows, int columns, int steps, int group) {
  constexpr int BK = ROW, A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
  // A warpgroup computes strips of 64 rows, which lie in as many bytes by k as by m.
  constexpr int STRIPS = BM / CONSUMERS / 64, STRIP_BYTES = 64 * ROW_BYTES, OUT_BYTES = 64 * ROW_BYTES;
  static_assert(BM % (64 * CONSUMERS) == 0 && BN % (64 * CLUSTER) == 0);
  extern __shared__ float shared[];
  __shared__ SharedBarrier full[STAGES], empty[STAGES];
  const unsigned stages = (shared_address(shared) + GROUP_BYTES - 1) / GROUP_BYTES * GROUP_BYTES;
  const unsigned outs = stages + STAGES * STAGE_BYTES;
  const int rank = CLUSTER > 1 ? cluster_rank() : 0, tiles = rows * columns;
  const int warpgroup = uniform(threadIdx.x / WARPGROUP), warp = uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    prefetch_map(a), prefetch_map(b), prefetch_map(c);
    for (int i = 0; i < STAGES; i++) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], CONSUMER_WARPS * CLUSTER);
    }
    barrier_fence();
  }
  if constexpr (CLUSTER > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }

  if (warpgroup == 0) {
    give_registers<40>();
    if (warp == 0 && lane == 0) {
      int stage = 0;
      unsigned parity = 1;  // of the phase before the first: a stage is empty when it is first filled
#pragma unroll 1
      for (int index = blockIdx.x / CLUSTER; index < tiles; index += gridDim.x / CLUSTER) {
        const Tile tile = tile_at(index, rows, columns, group);
        const int m = (tile.m * CLUSTER + rank) * BM, n = tile.n * BN;
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
          const unsigned a_tile = stages + stage * STAGE_BYTES, b_tile = a_tile + A_BYTES;
          const int k = step * BK;
          barrier_wait(&empty[stage], parity);
          barrier_expect(&full[stage], STAGE_BYTES);  // from all blocks of the cluster
          if constexpr (A_BY_K) {
            load_block(a_tile, a, k, m, &full[stage]);
          } else {
#pragma unroll
            for (int i = 0; i < BM / ROW; i++)
              load_block(a_tile + i * BK * ROW_BYTES, a, m + i * ROW, k, &full[stage]);
          }
          // This block's part of b's tile, for all.
          constexpr int PART = BN / CLUSTER;
          const int first = rank * PART;
          const unsigned part = b_tile + first * ROW_BYTES;  // a row has as many bytes as a column of a block has
          if constexpr (B_BY_K) {
            if constexpr (CLUSTER > 1) {
              load_block_for((1 << CLUSTER) - 1, part, b, k, n + first, &full[stage]);
            } else {
              load_block(part, b, k, n, &full[stage]);
            }
          } else {
#pragma unroll
            for (int i = 0; i < PART / ROW; i++) {
              const unsigned to = part + i * BK * ROW_BYTES;
              if constexpr (CLUSTER > 1) {
                load_block_for((1 << CLUSTER) - 1, to, b, n + first + i * ROW, k, &full[stage]);
              } else {
                load_block(to, b, n + i * ROW, k, &full[stage]);
              }
            }
          }
          if (++stage == STAGES) stage = 0, parity ^= 1;
        }
      }
    }
    __syncwarp();
  } else {
    take_registers<232>();
    const int consumer = warpgroup - 1;
    const bool writes = threadIdx.x % WARPGROUP == 0;  // the thread that has the copy engine store
    const unsigned out = outs + consumer * OUT_BLOCKS * OUT_BYTES;
    // Where this lane's row of the matrices that it stores is, and its piece.
    const int out_row = warp * 16 + lane % 16, out_piece = lane / 16;
    int stage = 0, blocks_out = 0;
    unsigned parity = 0;
    // The other blocks may fill a stage, too, when no warp of any block reads it.
    const auto release = [&](int stage) {
      if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) barrier_arrive_in(lane, &empty[stage]);
      } else {
        if (lane == 0) barrier_arrive(&empty[stage]);
      }
    };
    float sum[STRIPS][BN / 2];
#pragma unroll 1
    for (int index = blockIdx.x / CLUSTER; index < tiles; index += gridDim.x / CLUSTER) {
      int before = 0;
#pragma unroll 1
      for (int step = 0; step < steps; step++) {
        const unsigned a_tile = stages + stage * STAGE_BYTES, b_tile = a_tile + A_BYTES;
        const unsigned long long a_here = operand(a_tile + consumer * STRIPS * STRIP_BYTES);  // this warpgroup's rows
        const unsigned long long b_here = operand(b_tile, BK * ROW_BYTES);
        barrier_wait(&full[stage], parity);
        products_begin();
#pragma unroll
        for (int k = 0; k < BK / 16; k++)
#pragma unroll
          for (int strip = 0; strip < STRIPS; strip++)
            product<T, A_BY_K, B_BY_K>(sum[strip], further(a_here, strip * STRIP_BYTES + k * (A_BY_K ? 32 : 16 * ROW_BYTES)),
                                       further(b_here, k * (B_BY_K ? 32 : 16 * ROW_BYTES)), step > 0 || k > 0);
        products_commit();
        // The products of the step before have read their stage.
        products_wait<1>();
        if (step > 0) release(before);
        before = stage;
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
      products_wait<0>();
      release(before);
#pragma unroll
      for (int strip = 0; strip < STRIPS; strip++) settle(sum[strip]);

      const Tile tile = tile_at(index, rows, columns, group);
      const int m = (tile.m * CLUSTER + rank) * BM + consumer * STRIPS * 64, n = tile.n * BN;
#pragma unroll
      for (int strip = 0; strip < STRIPS; strip++)
#pragma unroll
        for (int block = 0; block < BN / ROW; block++) {
          const unsigned here = out + blocks_out % OUT_BLOCKS * OUT_BYTES;
          blocks_out++;
          // The store that read this place before has read it.
          if (writes) stores_have_read<OUT_BLOCKS - 1>();
          meet(1 + consumer, WARPGROUP);
#pragma unroll
          for (int pair = 0; pair < ROW / 16; pair++) {
            const float* const of = &sum[strip][block * 32 + pair * 8];
            store_matrices(swizzled(here, out_row, 2 * pair + out_piece), pack<T>(of[0], of[1]), pack<T>(of[2], of[3]),
                           pack<T>(of[4], of[5]), pack<T>(of[6], of[7]));
          }
          publish_writes();
          meet(1 + consumer, WARPGROUP);
          if (writes) {
            store_block(c, here, n + block * ROW, m + strip * 64);
            stores_commit();
          }
        }
    }
    if (writes) stores_have_read<0>();  // shared memory goes with the block
    __syncwarp();
  }
  // Others may still arrive at this block's barriers.
  if constexpr (CLUSTER > 1) cluster_sync();
}
