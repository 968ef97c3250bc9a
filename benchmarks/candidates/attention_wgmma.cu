// Attention, forward, on Hopper: blocks stay, one warp has the copy engine bring queries, keys and values, and warpgroups
// compute 64 queries each. hopper.cuh has the instructions and how tiles lie in shared memory, attention_wgmma.py what
// was checked.
//
// A warpgroup issues the scores of the next tile of keys and the weighted sum of values of the tile before together, and
// computes the softmax of the one while the tensor cores compute the other. In between it lets another warpgroup issue
// its own: they take turns.
#include <math_constants.h>

#include "hopper.cuh"

#define NONE (-CUDART_INF_F)  // the score of a key that is not seen

constexpr int WARPGROUP = 128, QUERIES = 64;  // of a warpgroup
constexpr float LN2 = 0.69314718055994531f;

// What a block computes: queries from `query` on of one head, and the tiles of keys that they see, from the last backwards.
struct Work {
  int batch, head, query, first_tile, end_tile;
};

// Sizes and which keys a query sees: first <= key - query <= last.
struct Shape {
  int batches, heads, group, queries, keys, first, last, together;
};

// Blocks of queries of as many heads as share the L2 cache follow each other, those that see the most keys first. A
// block takes one of each round; every other round is walked backwards, so that long and short ones even out.
template <int ROWS, int KEYS>
__device__ __forceinline__ Work work_at(int round, const Shape& shape) {
  const int place = round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x, index = round * gridDim.x + place;
  const int tiles = (shape.queries + ROWS - 1) / ROWS, heads = shape.batches * shape.heads;
  if (index >= tiles * heads) return {-1, 0, 0, 0, 0};
  const int before = index / (shape.together * tiles) * shape.together, width = min(heads - before, shape.together);
  const int inside = index - before * tiles, head = before + inside % width;
  const int query = (tiles - 1 - inside / width) * ROWS;
  const int begin = max(query + shape.first, 0), end = min(query + ROWS + shape.last, shape.keys);
  const int first_tile = begin / KEYS;
  return {head / shape.heads, head % shape.heads, query, first_tile, max((end + KEYS - 1) / KEYS, first_tile)};
}

// D: the width of a head rounded up to 64 or 128; columns beyond it are zeros, and not stored. Dynamic shared memory:
// 1023 bytes to align, the slots of keys and values, the queries, and results on their way.
template <class T, int D, int KEYS, int SLOTS, int CONSUMERS, bool TURNS>
__global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          const __grid_constant__ TensorMap y, float* lse, float scale, int batches, int heads, int group, int queries,
          int keys, int first, int last, int together) {
  constexpr int ROWS = CONSUMERS * QUERIES, BLOCKS = D / ROW;  // a tile is so many blocks of 64 columns
  constexpr int SLOT_BLOCK = KEYS * ROW_BYTES, SLOT_BYTES = BLOCKS * SLOT_BLOCK;
  constexpr int QUERY_BLOCK = QUERIES * ROW_BYTES, QUERY_BYTES = BLOCKS * QUERY_BLOCK;
  extern __shared__ float shared[];
  __shared__ SharedBarrier full[SLOTS], empty[SLOTS], queries_full[CONSUMERS], queries_empty[CONSUMERS];
  const unsigned slots = (shared_address(shared) + GROUP_BYTES - 1) / GROUP_BYTES * GROUP_BYTES;
  const unsigned query_tiles = slots + SLOTS * SLOT_BYTES, result_tiles = query_tiles + CONSUMERS * QUERY_BYTES;
  const int warpgroup = uniform(threadIdx.x / WARPGROUP), warp = uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;
  const Shape shape{batches, heads, group, queries, keys, first, last, together};

  if (threadIdx.x == 0) {
    prefetch_map(q), prefetch_map(k), prefetch_map(v), prefetch_map(y);
    for (int i = 0; i < SLOTS; i++) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], CONSUMERS * 4);
    }
    for (int i = 0; i < CONSUMERS; i++) {
      barrier_init(&queries_full[i], 1);
      barrier_init(&queries_empty[i], 4);
    }
    barrier_fence();
  }
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<CONSUMERS == 2 ? 40 : 32>();
    if (warp == 0 && lane == 0) {
      int slot = 0;
      unsigned parity = 1, queries_parity = 1;  // of the phase before the first: all is empty
      const auto bring = [&](const TensorMap& map, int tile, const Work& work) {
        barrier_wait(&empty[slot], parity);
        barrier_expect(&full[slot], SLOT_BYTES);
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
          load_block(slots + slot * SLOT_BYTES + i * SLOT_BLOCK, map, i * ROW, tile * KEYS, work.head / group, work.batch,
                     &full[slot]);
        if (++slot == SLOTS) slot = 0, parity ^= 1;
      };
#pragma unroll 1
      for (int round = 0;; round++) {
        const Work work = work_at<ROWS, KEYS>(round, shape);
        if (work.batch < 0) break;
        if (work.first_tile == work.end_tile) continue;
#pragma unroll 1
        for (int i = 0; i < CONSUMERS; i++) {
          barrier_wait(&queries_empty[i], queries_parity);
          barrier_expect(&queries_full[i], QUERY_BYTES);
#pragma unroll
          for (int j = 0; j < BLOCKS; j++)
            load_block(query_tiles + i * QUERY_BYTES + j * QUERY_BLOCK, q, j * ROW, work.query + i * QUERIES, work.head,
                       work.batch, &queries_full[i]);
        }
        queries_parity ^= 1;
        // In the order in which they are read: keys are a tile ahead of values.
        bring(k, work.end_tile - 1, work);
#pragma unroll 1
        for (int tile = work.end_tile - 1; tile > work.first_tile; tile--) {
          bring(k, tile - 1, work);
          bring(v, tile, work);
        }
        bring(v, work.first_tile, work);
      }
    }
  } else {
    take_registers<CONSUMERS == 2 ? 232 : 160>();
    const int consumer = warpgroup - 1;
    const bool writes = threadIdx.x % WARPGROUP == 0;  // the thread that has the copy engine store
    const unsigned query_tile = query_tiles + consumer * QUERY_BYTES, result_tile = result_tiles + consumer * QUERY_BYTES;
    const unsigned long long query_operand = operand(query_tile);
    const int result_row = warp * 16 + lane % 16, result_piece = lane / 16;  // of the matrices that this lane stores
    int slot = 0;
    unsigned parity = 0, queries_parity = 0;
    // Each waits at barrier 1 + its own number for the one before, and the first one does not wait the first time.
    const auto await_turn = [&] {
      if constexpr (TURNS) meet(1 + consumer, 2 * WARPGROUP);
    };
    const auto pass_turn = [&] {
      if constexpr (TURNS) let_pass(1 + (consumer + 1) % CONSUMERS, 2 * WARPGROUP);
    };
    if (TURNS && consumer == CONSUMERS - 1) pass_turn();
    const auto await_slot = [&] { barrier_wait(&full[slot], parity); };
    const auto next_slot = [&] {
      if (++slot == SLOTS) slot = 0, parity ^= 1;
    };
    const auto release = [&](int slot) {
      if (lane == 0) barrier_arrive(&empty[slot]);
    };

    float s[KEYS / 2], o[D / 2];
    unsigned p[KEYS / 16][4];
    // Of rows lane / 4 and lane / 4 + 8 of this warp's. Sums are of this lane's columns alone until the end.
    float peak[2], total[2];
    const auto issue_scores = [&](int slot) {
      const unsigned long long key_operand = operand(slots + slot * SLOT_BYTES);
#pragma unroll
      for (int i = 0; i < D / 16; i++)
        product<T, true, true>(s, further(query_operand, i / 4 * QUERY_BLOCK + i % 4 * 32),
                               further(key_operand, i / 4 * SLOT_BLOCK + i % 4 * 32), i > 0);
      products_commit();
    };
    const auto issue_values = [&](int slot, bool add) {
      const unsigned long long value_operand = operand(slots + slot * SLOT_BYTES, SLOT_BLOCK);
#pragma unroll
      for (int i = 0; i < KEYS / 16; i++)
        product<T, false>(o, p[i], further(value_operand, i * 16 * ROW_BYTES), add || i > 0);
      products_commit();
    };

#pragma unroll 1
    for (int round = 0;; round++) {
      const Work work = work_at<ROWS, KEYS>(round, shape);
      if (work.batch < 0) break;
      const int query = work.query + consumer * QUERIES;  // this warpgroup's first
      const int row = query + warp * 16 + lane / 4;       // this lane's first; the second is 8 further
      // Scores become weights, exp2(score - peak), and `shrink` what the sums so far are multiplied by.
      const auto weigh = [&](int tile, float (&shrink)[2]) {
        const int key = tile * KEYS;
        const bool seen_by_all = key + KEYS <= min(keys, query + last + 1) && key >= query + QUERIES - 1 + first;
        if (!seen_by_all) {
#pragma unroll
          for (int h = 0; h < 2; h++) {
            // In columns counted from this lane's first.
            const int from = row + 8 * h + first - key - 2 * (lane % 4);
            const int to = min(keys - 1, row + 8 * h + last) - key - 2 * (lane % 4);
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
              for (int i = 0; i < 2; i++)
                if (8 * j + i < from || 8 * j + i > to) s[4 * j + 2 * h + i] = NONE;
          }
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
          float most = peak[h];
#pragma unroll
          for (int j = 0; j < KEYS / 8; j++) most = fmaxf(most, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
          most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
          most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
          const float base = most == NONE ? 0.0f : most * scale;  // where nothing is seen so far, weights are 0
          shrink[h] = exp2_fast(fmaf(peak[h], scale, -base));
          peak[h] = most;
          float sum = 0.0f;
#pragma unroll
          for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
              float& weight = s[4 * j + 2 * h + i];
              weight = exp2_fast(fmaf(weight, scale, -base));
              sum += weight;
            }
          total[h] = fmaf(total[h], shrink[h], sum);
        }
      };
      const auto round_weights = [&] {
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) p[i][j] = pack<T>(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
      };

      peak[0] = peak[1] = NONE, total[0] = total[1] = 0.0f;
      if (work.first_tile < work.end_tile) {
        float shrink[2];
        barrier_wait(&queries_full[consumer], queries_parity);
        await_slot();
        products_begin();
        issue_scores(slot);
        products_wait<0>();
        settle(s);
        release(slot);
        next_slot();
        weigh(work.end_tile - 1, shrink);
        round_weights();
        bool add = false;  // nothing is summed before the first tile
#pragma unroll 1
        for (int tile = work.end_tile - 2; tile >= work.first_tile; tile--) {
          const int key_slot = slot;
          await_slot();
          await_turn();
          products_begin();
          issue_scores(key_slot);
          next_slot();
          const int value_slot = slot;
          await_slot();
          products_begin();
          issue_values(value_slot, add);
          next_slot();
          pass_turn();
          add = true;
          products_wait<1>();
          settle(s);
          release(key_slot);
          weigh(tile, shrink);
          compute_before(total[0] + total[1]);
          products_wait<0>();
          settle(o);
          release(value_slot);
#pragma unroll
          for (int i = 0; i < D / 2; i++) o[i] *= shrink[i / 2 % 2];
          round_weights();
        }
        if (lane == 0) barrier_arrive(&queries_empty[consumer]);
        queries_parity ^= 1;
        await_slot();
        products_begin();
        issue_values(slot, add);
        products_wait<0>();
        settle(o);
        release(slot);
        next_slot();
      }

      // Results.
      float factor[2];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        total[h] += __shfl_xor_sync(0xffffffff, total[h], 1);
        total[h] += __shfl_xor_sync(0xffffffff, total[h], 2);
        const bool sees_none = total[h] == 0.0f;
        factor[h] = sees_none ? 0.0f : __fdividef(1.0f, total[h]);
        const int here = row + 8 * h;
        if (lane % 4 == 0 && here < queries)
          lse[((long long)work.batch * heads + work.head) * queries + here] =
              sees_none ? NONE : fmaf(peak[h], scale, log2_fast(total[h])) * LN2;
      }
      if (work.first_tile == work.end_tile)
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i] = 0.0f;
      // What was stored from here before has been read.
      if (writes) stores_have_read<0>();
      meet(1 + CONSUMERS + consumer, WARPGROUP);
#pragma unroll
      for (int i = 0; i < D / 16; i++) {
        const float* const of = &o[8 * i];
        store_matrices(swizzled(result_tile + i / 4 * QUERY_BLOCK, result_row, 2 * (i % 4) + result_piece),
                       pack<T>(of[0] * factor[0], of[1] * factor[0]), pack<T>(of[2] * factor[1], of[3] * factor[1]),
                       pack<T>(of[4] * factor[0], of[5] * factor[0]), pack<T>(of[6] * factor[1], of[7] * factor[1]));
      }
      publish_writes();
      meet(1 + CONSUMERS + consumer, WARPGROUP);
      if (writes) {
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
          store_block(y, result_tile + i * QUERY_BLOCK, i * ROW, query, work.head, work.batch);
        stores_commit();
      }
    }
    if (writes) stores_have_read<0>();  // shared memory goes with the block
  }
}
