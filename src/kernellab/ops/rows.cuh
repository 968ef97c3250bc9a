// Ops along the last dim: how rows are moved. The op's F says what is computed from one row a, or from two, a and b:
// - F::INPUTS, how many rows there are;
// - F::State, what the threads of a team merge (see teams.cuh), and F::absorb(a, b, state), the state with the elements
//   of a share of each row;
// - F::filling(), the value beyond the end of a row: absorbing it changes nothing;
// - F::combine(state), which makes the numbers of the row from that of all threads, and F::finish(a, b, numbers), an
//   element of the result;
// - F::Held, what a thread holds of its share until the numbers are known: HeldShare, if nothing else is better;
// - F::zero(state), see RowShare.
//
// A row is held in registers by some lanes of a warp, a block, or a cluster of blocks, and so read once; only rows too
// wide for eight blocks' registers are read a second time.
//
// In every kernel a is [rows, cols] with strides (a_row, a_col), b and y are [rows, cols] contiguous, all counted in
// elements. WIDTH > 1 only if a_col is 1; then all rows are ALIGNED to WIDTH elements, or the rows of a, b and y start at
// the same offset from it.
#pragma once

#include "teams.cuh"

// What a thread holds of its share of one row or two: the share itself, as it lies in memory.
//
// Values in fp32 are computed again instead of kept: those of a 16-bit row would need twice its registers, and an SM would
// have room for half as many blocks. The compiler would keep what it unpacked for absorb(). So a number that is always 0,
// which the compiler cannot know, is XORed in: F::zero(state). A constant 0 leaves it to the compiler.
template <class F, class S>
struct HeldShare {
  S a, b;

  __device__ __forceinline__ typename F::State take(const S& of_a, const S& of_b) {
    a = of_a;
    if constexpr (F::INPUTS > 1) b = of_b;
    return F::absorb(of_a, of_b, F::State::nothing());
  }

  // A function of i and k: element k of access i of the result.
  __device__ __forceinline__ auto results(typename F::State state) const {
    return [this, numbers = F::combine(state), zero = F::zero(state)](int i, int k) {
      auto of_a = a.v[i], of_b = b.v[i];
      if constexpr (S::BITS < 32) of_a.flip(zero), of_b.flip(zero);
      return F::finish(of_a[k], F::INPUTS > 1 ? of_b[k] : 0.0f, numbers);
    };
  }
};

template <class F, typename T, int WIDTH, int VECS, typename Index>
__device__ __forceinline__ void load_rows(Share<T, WIDTH, VECS, Index>& a, Share<T, WIDTH, VECS, Index>& b, const T* from_a,
                                          int64 a_col, const T* from_b, const Part<Index>& part) {
  a.load(from_a, a_col, part, F::filling());
  if constexpr (F::INPUTS > 1) b.load(from_b, 1, part, F::filling());
}

template <typename T, int WIDTH, int VECS, typename Index, class Results>
__device__ __forceinline__ void store_row(T* y, const Part<Index>& part, const Results& results) {
  typedef Vec<T, WIDTH> V;
  V* const to = reinterpret_cast<V*>(y + part.from);
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const Index at = part.first + i * part.step;
    V out;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) out.set(k, results(i, k));
    if (at < part.end) to[at] = out;
  }
}

// One row, held in registers.
template <class F, typename T, int WIDTH, bool ALIGNED, int VECS, class Team>
__device__ __forceinline__ void map_row(const Team& team, const T* a, int64 a_col, const T* b, T* y, int64 cols) {
  const Peeled<T, WIDTH, ALIGNED> peeled(a, cols);
  const Part<int> part = peeled.part(team.first(), team.step()), extra_part = peeled.extra_part(team.first());
  Share<T, WIDTH, VECS, int> of_a, of_b;
  Share<T, 1, 1, int> extra_a, extra_b;
  load_rows<F>(of_a, of_b, a, a_col, b, part);
  if constexpr (!ALIGNED) load_rows<F>(extra_a, extra_b, a, 1, b, extra_part);
  typename F::template Held<Share<T, WIDTH, VECS, int>> held;
  typename F::template Held<Share<T, 1, 1, int>> extra;
  auto state = held.take(of_a, of_b);
  if constexpr (!ALIGNED) state = merge(state, extra.take(extra_a, extra_b));
  state = team.merge_all(state, 0);
  store_row<T, WIDTH, VECS>(y, part, held.results(state));
  if constexpr (!ALIGNED) store_row<T, 1, 1>(y, extra_part, extra.results(state));
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

// Rows that fit a team's registers: read once, written once. blockDim.x · blocks · VECS · WIDTH >= cols. Two inputs need
// so many registers that an SM has them for 512 threads.
template <class F, typename T, int WIDTH, bool ALIGNED, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(F::INPUTS > 1 ? 512 : 1024) rows_block(ROW_PARAMETERS) {
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
  HeldShare<F, Share<T, WIDTH, VECS, int64>> share;
  HeldShare<F, Share<T, 1, 1, int64>> extra;
  auto state = F::State::nothing();
  if constexpr (!ALIGNED) {
    load_rows<F>(extra.a, extra.b, a, 1, b, extra_part);
    state = F::absorb(extra.a, extra.b, state);
  }
  for (; part.first < part.end; part.first += stride) {
    load_rows<F>(share.a, share.b, a, a_col, b, part);
    state = F::absorb(share.a, share.b, state);
  }
  state = team.merge_all(state);
  for (part.first -= stride; part.first >= 0; part.first -= stride) {
    load_rows<F>(share.a, share.b, a, a_col, b, part);
    store_row<T, WIDTH, VECS>(y, part, share.results(state));
  }
  if constexpr (!ALIGNED) {
    load_rows<F>(extra.a, extra.b, a, 1, b, extra_part);
    store_row<T, 1, 1>(y, extra_part, extra.results(state));
  }
}
