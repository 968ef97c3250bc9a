// The backward pass of norms of wide, aligned rows: blocks stay, and the copy engine brings the next rows while they
// compute. From sm_90 on. norms.cuh says what the kernel is given.
//
// The warps of a block form groups, which take a row each; the blocks of a cluster take a slice of their rows each. A ring
// of stages in shared memory holds dy and x of a row for each group. In a turn, a thread reads its part of the present row
// and sends what it found to all that have the same row, then it writes the results of the row before: by then the others'
// messages have come. A stage is filled again as soon as its row is written.
#pragma once

#include "norms_backward.cuh"

// The stage that is read, the one whose row is written, and one on its way. More did not help on an H200 (2026-11-16).
constexpr int STAGES = 3;

// One message to another block.
template <int N>
struct alignas(4 * N) Message : Sums<N> {};

// dw and db are [teams, cols]: a team's sums. Each group has `warps`; blockDim.x is a multiple of a group's threads.
// Dynamic shared memory: the stages, and the weights of a norm that is centred. Its sums need the registers.
template <class Norm, bool ADD, typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(2048 / VECS, 1)
norm_backward_pipeline(const T* dy, int64 dy_row, const T* x, int64 x_row, const T* up, int64 up_row, const T* weight,
                       const float* means, const float* rstds, T* dx, float* dw, float* db, int64 rows, int64 cols,
                       int64 warps) {
  typedef Vec<T, WIDTH> V;
  constexpr int KINDS = Norm::CENTRED ? 2 : 1, MOST_WARPS = 64 / VECS;
  // Of 16-bit elements the mean is subtracted as part of a constant: one instruction less. fp32 would lose digits.
  constexpr bool FOLDED = Norm::CENTRED && sizeof(T) < 4, CENTRED = Norm::CENTRED && !FOLDED;
  typedef Message<KINDS> Totals;
  extern __shared__ float shared[];
  __shared__ SharedBarrier full[STAGES], empty[STAGES], arrived[2];
  __shared__ Totals found[2][(CLUSTER ? MOST_BLOCKS : 1) * MOST_WARPS];  // by all that take a turn together
  V* const places = reinterpret_cast<V*>(shared);                        // [STAGES][dy, x][groups][slice]
  const int rank = cluster_rank(), blocks = cluster_blocks();
  const int slice = 32 * VECS * (int)warps, before = rank * slice, accesses = cols / WIDTH;
  const int count = before < accesses ? min(accesses - before, slice) : 0;
  const int groups = blockDim.x / (32 * (int)warps), group = threadIdx.x / (32 * (int)warps);
  // A warp's accesses are neighbours, so that those of a thread are a constant distance apart.
  const int lane = threadIdx.x % 32, in_block = threadIdx.x / 32 * (32 * VECS) + lane, mine = in_block - group * slice;
  const int inside = mine < count ? min((count - mine + 31) / 32, VECS) : 0;
  const int all = groups * slice, step = gridDim.x / blocks * groups, first_row = blockIdx.x / blocks * groups;
  // Rows are fewer than 2³¹: so wide, they would not fit in memory.
  const int last_row = rows;

  const V filling = V::filled(0.0f);
  for (int i = 0; i < 2 * STAGES * groups; i++)
    for (int at = count + threadIdx.x; at < slice; at += blockDim.x) places[i * slice + at] = filling;
  // Called by one thread: the rows of all groups, from `row` on.
  const auto fetch = [&](int stage, int row) {
    const int there = count ? min(groups, last_row - row) : 0;
    const unsigned bytes = count * sizeof(V);
    barrier_expect(&full[stage], 2 * there * bytes);
#pragma unroll 1
    for (int i = 0; i < there; i++) {
      V* const to = places + 2 * stage * all + i * slice;
      copy_to_shared(to, dy + (row + i) * dy_row + before * WIDTH, bytes, &full[stage]);
      copy_to_shared(to + all, x + (row + i) * x_row + before * WIDTH, bytes, &full[stage]);
    }
  };
  // Messages of one row, where its first is, and where this warp's is.
  const int messages = blocks * (int)warps, first_message = group * messages;
  const int own_message = first_message + rank * (int)warps + threadIdx.x / 32 - group * (int)warps;
  const auto expect_messages = [&](int turn) { barrier_expect(&arrived[turn % 2], messages * sizeof(Totals)); };
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], blockDim.x / 32);
    }
    for (int i = 0; i < 2; i++) {
      barrier_init(&arrived[i], CLUSTER ? 1 : blockDim.x / 32);
      if (CLUSTER) expect_messages(i);
    }
    barrier_fence();
    for (int i = 0; i < STAGES && first_row + i * step < last_row; i++) fetch(i, first_row + i * step);
  }

  V* const weights_here = places + 2 * STAGES * all + in_block;  // each thread reads its own
  V w[VECS];
  float of_weight[VECS][WIDTH], of_bias[VECS][WIDTH];
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    w[i] = V::filled(1.0f);
    if (weight && i < inside) w[i] = reinterpret_cast<const V*>(weight)[before + mine + 32 * i];
    if constexpr (Norm::CENTRED) weights_here[32 * i] = w[i];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) of_weight[i][k] = of_bias[i][k] = 0.0f;
  }
  if constexpr (CLUSTER) {
    cluster_sync();  // the barriers are known, and every block of the cluster runs
  } else {
    __syncthreads();
  }

  int row = first_row + group;
  // Of the next row: loaded long before they are needed.
  float next_mean = Norm::CENTRED && row < last_row ? means[row] : 0.0f, next_rstd = row < last_row ? rstds[row] : 0.0f;
  // The results of the row before are g·rstd_before + distance·slope + constant.
  float mean_before = 0.0f, rstd_before = 0.0f, slope = 0.0f, constant = 0.0f;
  int now = 0, last = STAGES - 1;  // stages
  unsigned parity = 0, last_parity = 1;
#pragma unroll 1
  for (int turn = 0;; turn++, row += step) {
    // Groups beyond the last row take part in everything that the others wait for.
    const bool has_rows = row - group < last_row, exists = row < last_row, existed = turn > 0 && row - step < last_row;
    const float mean = next_mean, rstd = next_rstd;
    // 0, which the compiler cannot know, for weights of 16 bits: it would keep them as fp32, in twice the registers.
    const unsigned zero = sizeof(T) < 4 ? __float_as_uint(rstd) >> 31 : 0;
    // What is added to the row before is loaded while the present one is read.
    V u[VECS];
    if constexpr (ADD)
      if (existed)
#pragma unroll
        for (int i = 0; i < VECS; i++)
          if (i < inside) u[i] = reinterpret_cast<const V*>(up + (row - step) * up_row)[before + mine + 32 * i];
    if (has_rows) {
      if (row + step < last_row) {
        next_rstd = rstds[row + step];
        if constexpr (Norm::CENTRED) next_mean = means[row + step];
      }
      barrier_wait(&full[now], parity);
      Totals sums{Totals::nothing()};
      if (exists) {
        const V* const here = places + 2 * now * all + in_block;
        const float shift = -mean * rstd;
#pragma unroll
        for (int i = 0; i < VECS; i++) {
          const V d = here[32 * i], v = here[all + 32 * i];
          V weights = Norm::CENTRED ? weights_here[32 * i] : w[i];
          if constexpr (!Norm::CENTRED) weights.flip(zero);
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            const float gradient = d.unpack(k), value = v.unpack(k), g = gradient * weights.unpack(k);
            const float normal = FOLDED ? fmaf(value, rstd, shift) : Norm::normalized(value, mean, rstd);
            sums.of[0] = fmaf(g, normal, sums.of[0]);
            if constexpr (Norm::CENTRED) sums.of[1] += g, of_bias[i][k] += gradient;
            of_weight[i][k] = fmaf(gradient, normal, of_weight[i][k]);
          }
        }
      }
      sums = {merge_lanes<32>(Sums<KINDS>(sums))};
      Totals* const message = &found[turn % 2][own_message];
      if constexpr (CLUSTER) {
        if (lane < blocks) send_to_block(lane, message, sums, &arrived[turn % 2]);
      } else if (lane == 0) {
        *message = sums;
        barrier_arrive(&arrived[turn % 2]);
      }
    }
    if (turn > 0) {
      const V* const here = places + 2 * last * all + in_block;
      V* const to = reinterpret_cast<V*>(dx + (int64)(row - step) * cols) + before + mine;
#pragma unroll
      for (int i = 0; i < VECS; i++) {
        const V d = here[32 * i], v = here[all + 32 * i];
        V out, weights = Norm::CENTRED ? weights_here[32 * i] : w[i];
        if constexpr (!Norm::CENTRED) weights.flip(zero);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
          const float distance = CENTRED ? v.unpack(k) - mean_before : v.unpack(k);
          float value = Norm::CENTRED ? fmaf(distance, slope, constant) : distance * slope;
          value = fmaf(d.unpack(k) * weights.unpack(k), rstd_before, value);
          if constexpr (ADD) value += u[i].unpack(k);
          out.set(k, value);
        }
        if (existed && i < inside) to[32 * i] = out;
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&empty[last]);
    }
    if (!has_rows) break;
    // Before a warp sends for the turn after next, it has received from all others in the next one: they have read these
    // messages by then.
    barrier_wait(&arrived[turn % 2], turn / 2 % 2);
    auto sums = Sums<KINDS>::nothing();
    for (int at = lane; at < messages; at += 32) sums = merge(sums, Sums<KINDS>(found[turn % 2][first_message + at]));
    if (CLUSTER && threadIdx.x == 0) expect_messages(turn);
    sums = scale(merge_lanes<32>(sums), 1.0f / (float)cols);
    slope = -sums.of[0] * rstd * rstd, mean_before = mean, rstd_before = rstd;
    constant = (FOLDED ? -mean * slope : 0.0f) - (Norm::CENTRED ? sums.of[Norm::CENTRED] * rstd : 0.0f);
    const int next = row - group + (STAGES - 1) * step;
    if (threadIdx.x == 0 && turn > 0 && next < last_row) {
      barrier_wait(&empty[last], last_parity);
      fetch(last, next);
    }
    last = now, last_parity = parity;
    if (++now == STAGES) now = 0, parity ^= 1;
  }

  // The sums of all groups, added in their order: always the same result.
  const auto write = [&](float (&sums)[VECS][WIDTH], float* to) {
    if (!to) return;
    to += (int64)(blockIdx.x / blocks) * cols + (int64)(before + mine) * WIDTH;
#pragma unroll 1
    for (int turn = 0; turn < groups; turn++) {
      if (turn == group)
#pragma unroll
        for (int i = 0; i < VECS; i++)
          if (i < inside)
#pragma unroll
            for (int k = 0; k < WIDTH; k += 4) {
              float4& four = *reinterpret_cast<float4*>(to + 32 * WIDTH * i + k);
              const float4 others = turn ? four : float4{0.0f, 0.0f, 0.0f, 0.0f};
              four = {others.x + sums[i][k], others.y + sums[i][k + 1], others.z + sums[i][k + 2],
                      others.w + sums[i][k + 3]};
            }
      __syncthreads();
    }
  };
  write(of_weight, dw);
  if constexpr (Norm::CENTRED) write(of_bias, db);
}
