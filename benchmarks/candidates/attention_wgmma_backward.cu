// Attention, backward, on Hopper: a block takes 128 keys of one head and walks along the queries that see them. Each of two
// warpgroups has 64 keys: rows of the transposed scores, so that weights stay in registers as operands of the sums for
// dk and dv. Gradients of the scores go through shared memory to those of the queries, which the copy engine adds up in
// memory, in any order. hopper.cuh has the instructions, attention_wgmma.py what was checked.
#include <math_constants.h>

#include "hopper.cuh"

#define NONE (-CUDART_INF_F)  // the score of a key that is not seen

constexpr int WARPGROUP = 128, CONSUMERS = 2, KEYS = 128, QUERIES = 64, STAGES = 2;
constexpr float LOG2E = 1.4426950408889634f;

// For each query two numbers: the logarithm to base 2 of its sum of exponentials, and upstream·y. Rows beyond the last
// query, up to a multiple of 64, get infinity, so that their weights are 0; so do those of queries that see no key. 16
// lanes take a row. `padded`: rows of a head with those beyond.
template <class T>
__global__ void attention_prepare(const uint4* upstream, const uint4* y, const float* lse, float* logarithms, float* sums,
                                  int heads, int queries, int padded, int pieces, long long upstream_row,
                                  long long upstream_head, long long upstream_batch, long long y_row, long long y_head,
                                  long long y_batch) {
  const int row = blockIdx.x * (blockDim.x / 16) + threadIdx.x / 16, piece = threadIdx.x % 16;
  const int head = blockIdx.y % heads, batch = blockIdx.y / heads;
  if (row >= padded) return;  // all 16 lanes
  float sum = 0.0f;
  if (row < queries && piece < pieces) {
    const uint4 a = upstream[batch * upstream_batch + head * upstream_head + row * upstream_row + piece];
    const uint4 b = y[batch * y_batch + head * y_head + row * y_row + piece];
    const unsigned as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      sum = fmaf(widen<T>(as[i] & 0xffff), widen<T>(bs[i] & 0xffff), sum);
      sum = fmaf(widen<T>(as[i] >> 16), widen<T>(bs[i] >> 16), sum);
    }
  }
#pragma unroll
  for (int apart = 8; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
  if (piece > 0) return;
  const long long place = (long long)blockIdx.y * padded + row;
  const float logarithm = row < queries ? lse[(long long)blockIdx.y * queries + row] * LOG2E : NONE;
  logarithms[place] = logarithm == NONE ? -NONE : logarithm;
  sums[place] = sum;
}

// What a block computes: keys from `key` on of one head, with queries of tiles first_tile to end_tile of each head of its
// group. Of as many heads as share the L2 cache, blocks that many queries see come first.
struct Work {
  int batch, head, key, first_tile, end_tile;
};
__device__ __forceinline__ Work work_of(int index, int batches, int kv_heads, int queries, int keys, int first, int last,
                                        int together) {
  const int tiles = (keys + KEYS - 1) / KEYS, heads = batches * kv_heads;
  const int before = index / (together * tiles) * together, width = min(heads - before, together);
  const int inside = index - before * tiles, head = before + inside % width, key = inside / width * KEYS;
  const int begin = max(key - last, 0), end = min(min(key + KEYS, keys) - first, queries);
  const int first_tile = begin / QUERIES;
  return {head / kv_heads, head % kv_heads, key, first_tile, max((end + QUERIES - 1) / QUERIES, first_tile)};
}

// D: the width of a head rounded up to 64 or 128. dq: floats, to which is added. `scale` makes exponents to base 2 of
// scores, `gradient_scale` is that of the scores themselves. Dynamic shared memory: 1023 bytes to align, keys and values,
// stages of queries and upstream gradients, gradients of scores, parts of dq, and the numbers of each query.
template <class T, int D>
__global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
attention_backward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                   const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap upstream,
                   const __grid_constant__ TensorMap dq, const __grid_constant__ TensorMap dk,
                   const __grid_constant__ TensorMap dv, const float* logarithms, const float* sums, float scale,
                   float gradient_scale, int batches, int kv_heads, int group, int queries, int keys, int padded, int first,
                   int last, int together) {
  constexpr int BLOCKS = D / ROW;  // a tile is so many blocks of 64 columns
  constexpr int KEY_BLOCK = KEYS * ROW_BYTES, KEY_BYTES = BLOCKS * KEY_BLOCK;
  constexpr int QUERY_BLOCK = QUERIES * ROW_BYTES, QUERY_BYTES = BLOCKS * QUERY_BLOCK;
  // A row of a block of floats has 32 of them. A warpgroup computes half of dq's columns.
  constexpr int SCORE_BYTES = KEYS * ROW_BYTES, SUM_BLOCKS = D / CONSUMERS / 32, SUM_BLOCK = QUERIES * ROW_BYTES;
  constexpr int NUMBER_BYTES = QUERIES * 4;
  extern __shared__ float shared[];
  __shared__ SharedBarrier keys_full, queries_full[STAGES], upstream_full[STAGES], empty[STAGES];
  const unsigned key_tile = (shared_address(shared) + GROUP_BYTES - 1) / GROUP_BYTES * GROUP_BYTES;
  const unsigned value_tile = key_tile + KEY_BYTES, query_stages = value_tile + KEY_BYTES;
  const unsigned upstream_stages = query_stages + STAGES * QUERY_BYTES;
  const unsigned score_tiles = upstream_stages + STAGES * QUERY_BYTES, sum_tiles = score_tiles + 2 * SCORE_BYTES;
  const unsigned numbers = sum_tiles + CONSUMERS * SUM_BLOCKS * SUM_BLOCK;  // of each stage, logarithms and sums
  const int warpgroup = uniform(threadIdx.x / WARPGROUP), warp = uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;
  const Work work = work_of(blockIdx.x, batches, kv_heads, queries, keys, first, last, together);
  const int heads = kv_heads * group;

  if (threadIdx.x == 0) {
    prefetch_map(q), prefetch_map(k), prefetch_map(v), prefetch_map(upstream);
    barrier_init(&keys_full, 1);
    for (int i = 0; i < STAGES; i++) {
      barrier_init(&queries_full[i], 1);
      barrier_init(&upstream_full[i], 1);
      barrier_init(&empty[i], CONSUMERS * 4);
    }
    barrier_fence();
  }
  __syncthreads();

  if (warpgroup == 0) {
    give_registers<24>();
    if (warp == 0 && lane == 0 && work.first_tile < work.end_tile) {
      barrier_expect(&keys_full, 2 * KEY_BYTES);
#pragma unroll
      for (int i = 0; i < BLOCKS; i++) {
        load_block(key_tile + i * KEY_BLOCK, k, i * ROW, work.key, work.head, work.batch, &keys_full);
        load_block(value_tile + i * KEY_BLOCK, v, i * ROW, work.key, work.head, work.batch, &keys_full);
      }
      int stage = 0;
      unsigned parity = 1;  // of the phase before the first: a stage is empty when it is first filled
#pragma unroll 1
      for (int head = work.head * group; head < (work.head + 1) * group; head++)
#pragma unroll 1
        for (int tile = work.first_tile; tile < work.end_tile; tile++) {
          const long long place = ((long long)work.batch * heads + head) * padded + tile * QUERIES;
          const unsigned here = numbers + stage * 2 * NUMBER_BYTES;
          barrier_wait(&empty[stage], parity);
          barrier_expect(&queries_full[stage], QUERY_BYTES + NUMBER_BYTES);
#pragma unroll
          for (int i = 0; i < BLOCKS; i++)
            load_block(query_stages + stage * QUERY_BYTES + i * QUERY_BLOCK, q, i * ROW, tile * QUERIES, head, work.batch,
                       &queries_full[stage]);
          load_bytes(here, logarithms + place, NUMBER_BYTES, &queries_full[stage]);
          barrier_expect(&upstream_full[stage], QUERY_BYTES + NUMBER_BYTES);
#pragma unroll
          for (int i = 0; i < BLOCKS; i++)
            load_block(upstream_stages + stage * QUERY_BYTES + i * QUERY_BLOCK, upstream, i * ROW, tile * QUERIES, head,
                       work.batch, &upstream_full[stage]);
          load_bytes(here + NUMBER_BYTES, sums + place, NUMBER_BYTES, &upstream_full[stage]);
          if (++stage == STAGES) stage = 0, parity ^= 1;
        }
    }
  } else {
    take_registers<240>();
    const int consumer = warpgroup - 1;
    const bool writes = threadIdx.x % WARPGROUP == 0;  // the thread that has the copy engine store
    const int key = work.key + consumer * 64;          // this warpgroup's first
    const int row = key + warp * 16 + lane / 4;        // this lane's first; the second is 8 further
    const int column = 2 * (lane % 4);                 // of queries: this lane has it and the next, and again after each 8
    const unsigned sum_tile = sum_tiles + consumer * SUM_BLOCKS * SUM_BLOCK;
    // This warpgroup's keys and values as rows, and its columns of all keys.
    const unsigned long long key_rows = operand(key_tile + consumer * 64 * ROW_BYTES);
    const unsigned long long value_rows = operand(value_tile + consumer * 64 * ROW_BYTES);
    // Columns of keys that this warpgroup multiplies for dq: of 128 a block, of 64 half of one.
    const unsigned long long key_columns = operand(key_tile + (D == 128 ? consumer * KEY_BLOCK : consumer * 64), KEY_BLOCK);
    int stage = 0;
    unsigned parity = 0;
    bool add = false;  // nothing is summed before the first tile
    float s[QUERIES / 2], ds[QUERIES / 2], dk_sum[D / 2], dv_sum[D / 2];
    unsigned p[QUERIES / 16][4];
    if (work.first_tile < work.end_tile) barrier_wait(&keys_full, 0);
    int turn = 0;
#pragma unroll 1
    for (int head = work.head * group; head < (work.head + 1) * group; head++)
#pragma unroll 1
      for (int tile = work.first_tile; tile < work.end_tile; tile++) {
        const unsigned query_tile = query_stages + stage * QUERY_BYTES, upstream_tile = upstream_stages + stage * QUERY_BYTES;
        const unsigned here = numbers + stage * 2 * NUMBER_BYTES;
        const unsigned score_tile = score_tiles + turn % 2 * SCORE_BYTES;
        const int query = tile * QUERIES;
        turn++;
        // Scores and gradients of weights, of [keys, queries].
        barrier_wait(&queries_full[stage], parity);
        products_begin();
#pragma unroll
        for (int i = 0; i < D / 16; i++)
          product<T, true, true>(s, further(key_rows, i / 4 * KEY_BLOCK + i % 4 * 32),
                                 further(operand(query_tile), i / 4 * QUERY_BLOCK + i % 4 * 32), i > 0);
        products_commit();
        barrier_wait(&upstream_full[stage], parity);
        products_begin();
#pragma unroll
        for (int i = 0; i < D / 16; i++)
          product<T, true, true>(ds, further(value_rows, i / 4 * KEY_BLOCK + i % 4 * 32),
                                 further(operand(upstream_tile), i / 4 * QUERY_BLOCK + i % 4 * 32), i > 0);
        products_commit();
        products_wait<1>();
        settle(s);

        if (key - (query + QUERIES - 1) < first || key + 63 - query > last || key + 64 > keys) {
#pragma unroll
          for (int h = 0; h < 2; h++) {
            // In columns counted from this lane's first: those of queries that see the key.
            const int from = row + 8 * h >= keys ? QUERIES : row + 8 * h - last - query - column;
            const int to = row + 8 * h - first - query - column;
#pragma unroll
            for (int j = 0; j < QUERIES / 8; j++)
#pragma unroll
              for (int i = 0; i < 2; i++)
                if (8 * j + i < from || 8 * j + i > to) s[4 * j + 2 * h + i] = NONE;
          }
        }
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
          const float2 logarithm = load_shared(here + (8 * j + column) * 4);
#pragma unroll
          for (int h = 0; h < 2; h++) {
            s[4 * j + 2 * h] = exp2_fast(fmaf(s[4 * j + 2 * h], scale, -logarithm.x));
            s[4 * j + 2 * h + 1] = exp2_fast(fmaf(s[4 * j + 2 * h + 1], scale, -logarithm.y));
          }
        }
#pragma unroll
        for (int i = 0; i < QUERIES / 16; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) p[i][j] = pack<T>(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
        products_begin();
#pragma unroll
        for (int i = 0; i < QUERIES / 16; i++)
          product<T, false>(dv_sum, p[i], further(operand(upstream_tile, QUERY_BLOCK), i * 16 * ROW_BYTES), add || i > 0);
        products_commit();

        // Gradients of scores.
        products_wait<1>();
        settle(ds);
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
          const float2 sum = load_shared(here + NUMBER_BYTES + (8 * j + column) * 4);
#pragma unroll
          for (int h = 0; h < 2; h++) {
            ds[4 * j + 2 * h] = s[4 * j + 2 * h] * (ds[4 * j + 2 * h] - sum.x);
            ds[4 * j + 2 * h + 1] = s[4 * j + 2 * h + 1] * (ds[4 * j + 2 * h + 1] - sum.y);
          }
        }
        // The weights that dv is summed from are not overwritten before their products are done.
        unsigned ps[QUERIES / 16][4];
#pragma unroll
        for (int i = 0; i < QUERIES / 16; i++) {
#pragma unroll
          for (int j = 0; j < 4; j++) ps[i][j] = pack<T>(ds[8 * i + 2 * j], ds[8 * i + 2 * j + 1]);
          store_matrices(swizzled(score_tile, consumer * 64 + warp * 16 + lane % 16, 2 * i + lane / 16), ps[i][0], ps[i][1],
                         ps[i][2], ps[i][3]);
        }
        publish_writes();
        meet(1, CONSUMERS * WARPGROUP);  // all keys' are there

        float dq_sum[D / 4];
        products_begin();
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
          product<T, false, false>(dq_sum, further(operand(score_tile), i * 16 * ROW_BYTES),
                                   further(key_columns, i * 16 * ROW_BYTES), i > 0);
        products_commit();
#pragma unroll
        for (int i = 0; i < QUERIES / 16; i++)
          product<T, false>(dk_sum, ps[i], further(operand(query_tile, QUERY_BLOCK), i * 16 * ROW_BYTES), add || i > 0);
        products_commit();
        add = true;
        products_wait<1>();
        settle(dq_sum);
        // What was added from here before has been read.
        if (writes) stores_have_read<0>();
        meet(2 + consumer, WARPGROUP);
#pragma unroll
        for (int j = 0; j < D / 16; j++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int in_tile = warp * 16 + lane / 4 + 8 * h;
            store_shared(swizzled(sum_tile + j / 4 * SUM_BLOCK, in_tile, 2 * (j % 4) + lane % 4 / 2) + lane % 2 * 8,
                         dq_sum[4 * j + 2 * h], dq_sum[4 * j + 2 * h + 1]);
          }
        publish_writes();
        meet(2 + consumer, WARPGROUP);
        if (writes) {
#pragma unroll
          for (int i = 0; i < SUM_BLOCKS; i++)
            add_block(dq, sum_tile + i * SUM_BLOCK, consumer * D / 2 + i * 32, query, head, work.batch);
          stores_commit();
        }
        products_wait<0>();
        settle(dk_sum);
        settle(dv_sum);
        if (lane == 0) barrier_arrive(&empty[stage]);
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }

    if (work.first_tile == work.end_tile)
#pragma unroll
      for (int i = 0; i < D / 2; i++) dk_sum[i] = dv_sum[i] = 0.0f;
    // Keys and values are not needed any more by either warpgroup: the results go where they were.
    meet(1, CONSUMERS * WARPGROUP);
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
      const int here = consumer * 64 + warp * 16 + lane % 16, piece = 2 * (i % 4) + lane / 16;
      const float *const of_k = &dk_sum[8 * i], *const of_v = &dv_sum[8 * i];
      unsigned packed[4];
#pragma unroll
      for (int j = 0; j < 4; j++) packed[j] = pack<T>(of_k[2 * j] * gradient_scale, of_k[2 * j + 1] * gradient_scale);
      store_matrices(swizzled(key_tile + i / 4 * KEY_BLOCK, here, piece), packed[0], packed[1], packed[2], packed[3]);
#pragma unroll
      for (int j = 0; j < 4; j++) packed[j] = pack<T>(of_v[2 * j], of_v[2 * j + 1]);
      store_matrices(swizzled(value_tile + i / 4 * KEY_BLOCK, here, piece), packed[0], packed[1], packed[2], packed[3]);
    }
    publish_writes();
    meet(2 + consumer, WARPGROUP);
    if (writes) {
#pragma unroll
      for (int i = 0; i < BLOCKS; i++) {
        const unsigned place = i * KEY_BLOCK + consumer * 64 * ROW_BYTES;
        store_block(dk, key_tile + place, i * ROW, key, work.head, work.batch);
        store_block(dv, value_tile + place, i * ROW, key, work.head, work.batch);
      }
      stores_commit();
      stores_have_read<0>();  // shared memory goes with the block
    }
  }
}
