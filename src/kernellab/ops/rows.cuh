// Ops along the last dim: how rows are moved. The op's F says what is computed from one row a, or from two, a and b:
// - F::INPUTS, how many rows there are;
// - F::State, what the threads of a team merge (see teams.cuh), and F::absorb(a, b, state), the state with the elements
//   of a share of each row;
// - F::filling(), the value beyond the end of a row: absorbing it changes nothing;
// - F::combine(state), which makes the numbers of the row from that of all threads, and F::finish(a, b, numbers), an
//   element of the result;
// - F::zero(state), see RowShare.
//
// A row is held in registers by some lanes of a warp, a block, or a cluster of blocks, and so read once; only rows too
// wide for eight blocks' registers are read a second time.
//
// In every kernel a is [rows, cols] with strides (a_row, a_col), b and y are [rows, cols] contiguous, all counted in
// elements. WIDTH > 1 only if a_col is 1; then all rows are ALIGNED to WIDTH elements, or the rows of a, b and y start at
// the same offset from it.
#pragma once

#include "pipeline.cuh"
#include "teams.cuh"

// A thread's share of all inputs.
template <class F, typename T, int WIDTH, int VECS, typename Index>
struct RowShare {
  typedef Vec<T, WIDTH> V;
  typedef typename F::State State;
  Share<T, WIDTH, VECS, Index> a, b;

  __device__ __forceinline__ void load(const T* from_a, int64 a_col, const T* from_b, const Part<Index>& part) {
    a.load(from_a, a_col, part, F::filling());
    if constexpr (F::INPUTS > 1) b.load(from_b, 1, part, F::filling());
  }

  __device__ __forceinline__ State absorb(State state) const { return F::absorb(a, b, state); }

  // Values in fp32 are computed again from `a` instead of kept: those of a 16-bit row would need twice its registers. The
  // compiler would keep what it unpacked for absorb(). So a number that is always 0, which the compiler cannot know, is
  // XORed in: F::zero(state). A constant 0 leaves it to the compiler.
  __device__ __forceinline__ void store(T* y, const Part<Index>& part, State state) {
    V* const to = reinterpret_cast<V*>(y + part.from);
    const auto numbers = F::combine(state);
    const unsigned zero = F::zero(state);
#pragma unroll
    for (int i = 0; i < VECS; i++) {
      const Index at = part.first + i * part.step;
      if constexpr (sizeof(T) < 4) a.v[i].flip(zero);
      V out;
#pragma unroll
      for (int k = 0; k < WIDTH; k++) out.set(k, F::finish(a.v[i][k], F::INPUTS > 1 ? b.v[i][k] : 0.0f, numbers));
      if (at < part.end) __stcs(&to[at].raw, out.raw);  // streaming: nothing here reads it again
    }
  }
};

// One row, held in registers.
template <class F, typename T, int WIDTH, bool ALIGNED, int VECS, class Team>
__device__ __forceinline__ void map_row(const Team& team, const T* a, int64 a_col, const T* b, T* y, int64 cols) {
  const Peeled<T, WIDTH, ALIGNED> peeled(a, cols);
  const Part<int> part = peeled.part(team.first(), team.step()), extra_part = peeled.extra_part(team.first());
  RowShare<F, T, WIDTH, VECS, int> share;
  RowShare<F, T, 1, 1, int> extra;
  share.load(a, a_col, b, part);
  if constexpr (!ALIGNED) extra.load(a, 1, b, extra_part);
  auto state = share.absorb(F::State::nothing());
  if constexpr (!ALIGNED) state = extra.absorb(state);
  state = team.merge_all(state, 0);
  share.store(y, part, state);
  if constexpr (!ALIGNED) extra.store(y, extra_part, state);
}

#define ROW_PARAMETERS const T *a, int64 a_row, int64 a_col, const T *b, T *y, int64 rows, int64 cols

// Narrow rows: LANES neighbouring threads per row, 32 / LANES rows per warp; no shared memory, no barrier.
template <class F, typename T, int WIDTH, bool ALIGNED, int VECS, int LANES>
__global__ void __launch_bounds__(128) rows_warp(ROW_PARAMETERS) {
  static_assert(ALIGNED || LANES == 32, "a thread has at most one element before or after the accesses");
  const int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int64 width = row < rows ? cols : 0;  // threads beyond the last row stay for the shuffles
  map_row<F, T, WIDTH, ALIGNED, VECS>(Lanes<LANES>(), a + row * a_row, a_col, b + row * cols, y + row * cols, width);
}

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS · WIDTH >= cols. With two inputs,
// registers do not suffice for two blocks of 1024 threads per SM: the compiler would spill some for that.
template <class F, typename T, int WIDTH, bool ALIGNED, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(1024, F::INPUTS > 1 ? 1 : 0) rows_block(ROW_PARAMETERS) {
  const Team<CLUSTER> team;
  const int64 row = team.row();
  map_row<F, T, WIDTH, ALIGNED, VECS>(team, a + row * a_row, a_col, b + row * cols, y + row * cols, cols);
}

// Wider rows: the state in one pass, then results backward from the end, which L2 still holds.
template <class F, typename T, int WIDTH, bool ALIGNED, bool CLUSTER>
__global__ void __launch_bounds__(1024) rows_loop(ROW_PARAMETERS) {
  constexpr int VECS = (WIDTH > 1 ? 4 : 8) / F::INPUTS;
  const Team<CLUSTER> team;
  const int64 row = team.row();
  a += row * a_row, b += row * cols, y += row * cols;
  const Peeled<T, WIDTH, ALIGNED> peeled(a, cols);
  const int64 step = team.step(), stride = VECS * step;
  Part<int64> part = peeled.part((int64)team.first(), step);
  const Part<int64> extra_part = peeled.extra_part((int64)team.first());
  RowShare<F, T, WIDTH, VECS, int64> share;
  RowShare<F, T, 1, 1, int64> extra;
  auto state = F::State::nothing();
  if constexpr (!ALIGNED) {
    extra.load(a, 1, b, extra_part);
    state = extra.absorb(state);
  }
  for (; part.first < part.end; part.first += stride) {
    share.load(a, a_col, b, part);
    state = share.absorb(state);
  }
  state = team.merge_all(state);
  for (part.first -= stride; part.first >= 0; part.first -= stride) {
    share.load(a, a_col, b, part);
    share.store(y, part, state);
  }
  if constexpr (!ALIGNED) {
    extra.load(a, 1, b, extra_part);
    extra.store(y, extra_part, state);
  }
}

// Wide, aligned rows on GPUs that can copy to shared memory by themselves: blocks stay until no row is left.
template <class F, typename T, int WIDTH, int VECS, bool CLUSTER, int BLOCKS>
__global__ void __launch_bounds__(512, BLOCKS)
rows_pipeline(const T* a, int64 a_row, const T* b, T* y, int64 rows, int64 cols, int64 warps, int64 stages) {
  typedef Vec<T, WIDTH> V;
  extern __shared__ float shared[];
  Flow<T, WIDTH, VECS, F::INPUTS> flow(reinterpret_cast<V*>(shared), rows, cols / WIDTH, warps, stages, F::filling());
  flow.inputs[0] = {a, a_row};
  if constexpr (F::INPUTS > 1) flow.inputs[1] = {b, cols};
  Exchange<typename F::State, CLUSTER> exchange(flow);
  auto numbers = F::combine(F::State::nothing());
  const int64 step = flow.step * cols;
  V* to = reinterpret_cast<V*>(y + flow.row * cols + flow.offset) - step / WIDTH;  // of the row before

  for (flow.begin(); flow.goes_on(); flow.advance(), to += step / WIDTH) {
    if (flow.has_row()) {
      flow.wait();
      Share<T, WIDTH, VECS, int> of_a, of_b;
#pragma unroll
      for (int i = 0; i < VECS; i++) {
        of_a.v[i] = flow.at(flow.now, 0, i);
        if constexpr (F::INPUTS > 1) of_b.v[i] = flow.at(flow.now, 1, i);
      }
      exchange.send(merge_lanes<32>(F::absorb(of_a, of_b, F::State::nothing())));
    }
    if (flow.has_row_before()) {
      const int inside = flow.row_before_exists() ? flow.inside : 0;
#pragma unroll
      for (int i = 0; i < VECS; i++) {
        const V of_a = flow.at(flow.before, 0, i), of_b = flow.at(flow.before, F::INPUTS - 1, i);
        V out;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) out.set(k, F::finish(of_a[k], of_b[k], numbers));
        if (i < inside) __stcs(&to[32 * i].raw, out.raw);
      }
      flow.release();
    }
    if (flow.has_row()) {
      numbers = F::combine(exchange.receive());
      flow.refill();
    }
  }
}
