// Norms of wide, aligned rows, both passes: pipeline.cuh moves the rows; norms.cuh says what the kernels are given.
#pragma once

#include "norms_backward.cuh"
#include "norms_forward.cuh"
#include "pipeline.cuh"

__device__ __forceinline__ float add_lanes(float value) { return merge_lanes<32>(Sums<1>{{value}}).of[0]; }

// How many elements there are, their mean, and the sum of their squared distances from it. The squares of all elements
// of a row follow from those of its warps: no difference of large sums is taken.
struct Distribution {
  float seen, mean, squares;

  __device__ static Distribution nothing() { return {0.0f, 0.0f, 0.0f}; }
};

template <int EACH>
__device__ __forceinline__ Distribution merge_warps(Distribution (&parts)[EACH]) {
  Sums<2> all = Sums<2>::nothing();
#pragma unroll
  for (int i = 0; i < EACH; i++) all.of[0] += parts[i].seen, all.of[1] += parts[i].seen * parts[i].mean;
  all = merge_lanes<32>(all);
  const float mean = all.of[1] / all.of[0];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const float apart = parts[i].mean - mean;
    squares += parts[i].squares + apart * parts[i].seen * apart;
  }
  return {all.of[0], mean, add_lanes(squares)};
}

// The sum of squares, for a norm that subtracts no mean.
typedef Sums<1> Squares;

// A thread's accesses of a row.
template <class V, int VECS>
struct Accesses {
  V v[VECS];
};

template <class Norm, typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(512, 1)
norm_pipeline(const T* x, int64 x_row, const T* weight, const T* bias, T* y, float* means, float* rstds, int64 rows,
              int64 cols, double eps, int64 warps, int64 stages) {
  typedef Vec<T, WIDTH> V;
  typedef Accesses<V, VECS> Held;
  typedef typename Choose<Norm::CENTRED, Distribution, Squares>::type Found;
  extern __shared__ float shared[];
  Flow<T, WIDTH, VECS, 1> flow(reinterpret_cast<V*>(shared), rows, cols / WIDTH, warps, stages, 0.0f);
  flow.inputs[0] = {x, x_row};
  Exchange<Found, CLUSTER> exchange(flow);
  V w[VECS], b[VECS];
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const int64 at = flow.offset + i * (32 * WIDTH);
    w[i] = weight && i < flow.inside ? *reinterpret_cast<const V*>(weight + at) : V::filled(1.0f);
    b[i] = bias && i < flow.inside ? *reinterpret_cast<const V*>(bias + at) : V::filled(0.0f);
  }
  float mean = 0.0f, rstd = 0.0f;
  const int64 step = flow.step * cols / WIDTH;
  V* to = reinterpret_cast<V*>(y + flow.row * cols + flow.offset) - step;  // of the row before

  const auto take_turn = [&](Held& now, const Held& before) {
    const bool has_row_before = flow.has_row_before();
    if (flow.has_row()) {
      flow.wait();
      const int inside = flow.row_exists() ? flow.inside : 0;
#pragma unroll
      for (int i = 0; i < VECS; i++) now.v[i] = flow.at(flow.now, 0, i);
      flow.release(flow.now);
      float squares = 0.0f;
      if constexpr (Norm::CENTRED) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < VECS; i++)
#pragma unroll
          for (int k = 0; k < WIDTH; k++) sum += now.v[i][k];
        const Sums<2> of_warp = merge_lanes<32>(Sums<2>{{(float)(inside * WIDTH), sum}});
        const float middle = of_warp.of[0] > 0.0f ? of_warp.of[1] / of_warp.of[0] : 0.0f;
#pragma unroll
        for (int i = 0; i < VECS; i++) {
          float here = 0.0f;
#pragma unroll
          for (int k = 0; k < WIDTH; k++) here += (now.v[i][k] - middle) * (now.v[i][k] - middle);
          squares += i < inside ? here : 0.0f;
        }
        exchange.send({of_warp.of[0], middle, add_lanes(squares)});
      } else {
#pragma unroll
        for (int i = 0; i < VECS; i++)
#pragma unroll
          for (int k = 0; k < WIDTH; k++) squares += now.v[i][k] * now.v[i][k];
        exchange.send({add_lanes(squares)});
      }
    }
    if (has_row_before) {
      const int inside = flow.row_before_exists() ? flow.inside : 0;
      // 0, which the compiler cannot know: it would keep everything of 16 bits as fp32 too, in twice the registers.
      const unsigned zero = sizeof(T) < 4 ? __float_as_uint(rstd) >> 31 : 0;
#pragma unroll
      for (int i = 0; i < VECS; i++) {
        V v = before.v[i], weights = w[i], biases = b[i], out;
        v.flip(zero);
        if constexpr (Norm::CENTRED) weights.flip(zero), biases.flip(zero);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
          const float value = Norm::normalized(v[k], mean, rstd) * weights[k];
          out.set(k, Norm::CENTRED ? value + biases[k] : value);
        }
        if (i < inside) to[32 * i] = out;
      }
    }
    if (flow.has_row()) {
      flow.refill(flow.now, flow.stages);
      const Found all = exchange.receive();
      float squares;
      if constexpr (Norm::CENTRED) {
        mean = all.mean, squares = all.squares;
      } else {
        squares = all.of[0];
      }
      rstd = rsqrtf(squares / (float)cols + (float)eps);
      if (flow.thread == 0 && flow.rank == 0 && flow.row_exists()) {
        if constexpr (Norm::CENTRED) means[flow.row] = mean;
        rstds[flow.row] = rstd;
      }
    }
    flow.advance(), to += step;
  };

  // Two, so that none has to be copied: what is held of this row, and of the one before.
  Held one, other;
  flow.begin();
  while (flow.goes_on()) {
    take_turn(one, other);
    if (!flow.goes_on()) break;
    take_turn(other, one);
  }
}

// dw and db are [teams, cols]: a team's sums. The gradient of the sum of x and the residual, `up`, is added.
template <class Norm, bool ADD, typename T, int WIDTH, int VECS, bool CLUSTER>
__global__ void __launch_bounds__(512, 1)
norm_backward_pipeline(const T* dy, int64 dy_row, const T* x, int64 x_row, const T* up, int64 up_row, const T* weight,
                       const float* means, const float* rstds, T* dx, float* dw, float* db, int64 rows, int64 cols,
                       int64 warps, int64 stages) {
  typedef Vec<T, WIDTH> V;
  typedef Sums<Norm::CENTRED ? 2 : 1> Totals;
  constexpr bool WEIGHTS_IN_SHARED = Norm::CENTRED;  // which needs registers for the gradient of the bias
  extern __shared__ float shared[];
  Flow<T, WIDTH, VECS, 2> flow(reinterpret_cast<V*>(shared), rows, cols / WIDTH, warps, stages, 0.0f);
  flow.inputs[0] = {dy, dy_row};
  flow.inputs[1] = {x, x_row};
  Exchange<Totals, CLUSTER> exchange(flow);
  V* const weights_here = flow.places + stages * 2 * flow.groups * flow.slice + flow.group * flow.slice + flow.first;
  V w[VECS];
  float of_weight[VECS][WIDTH], of_bias[VECS][WIDTH];
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    const V* const from = reinterpret_cast<const V*>(weight + flow.offset) + 32 * i;
    w[i] = weight && i < flow.inside ? *from : V::filled(1.0f);
    if constexpr (WEIGHTS_IN_SHARED) weights_here[32 * i] = w[i];  // each thread reads its own
#pragma unroll
    for (int k = 0; k < WIDTH; k++) of_weight[i][k] = of_bias[i][k] = 0.0f;
  }
  // Of the row before, the present and the next: the last is loaded long before it is needed.
  float mean_before = 0.0f, rstd_before = 0.0f, mean = 0.0f, rstd = 0.0f, next_mean = 0.0f, next_rstd = 0.0f;
  const auto load_next = [&](int64 row) {
    if (row >= rows) return;
    next_rstd = rstds[row];
    if constexpr (Norm::CENTRED) next_mean = means[row];
  };
  load_next(flow.row);
  Totals totals = Totals::nothing();
  const int64 step = flow.step * cols;
  V* to = reinterpret_cast<V*>(dx + flow.row * cols + flow.offset) - step / WIDTH;  // of the row before

  for (flow.begin(); flow.goes_on(); flow.advance(), to += step / WIDTH) {
    mean_before = mean, rstd_before = rstd, mean = next_mean, rstd = next_rstd;
    // 0, which the compiler cannot know, for weights of 16 bits: it would keep them as fp32, in twice the registers.
    const unsigned zero = sizeof(T) < 4 ? __float_as_uint(rstd) >> 31 : 0;
    // What is added to the row before is loaded while the present one is read.
    V u[VECS];
    if constexpr (ADD)
      if (flow.has_row_before() && flow.row_before_exists())
#pragma unroll
        for (int i = 0; i < VECS; i++)
          if (i < flow.inside) u[i] = reinterpret_cast<const V*>(up + (flow.row - flow.step) * up_row + flow.offset)[32 * i];
    if (flow.has_row()) {
      load_next(flow.row + flow.step);
      flow.wait();
      Totals mine = Totals::nothing();
      if (flow.row_exists()) {
#pragma unroll
        for (int i = 0; i < VECS; i++) {
          const V d = flow.at(flow.now, 0, i), v = flow.at(flow.now, 1, i);
          V weights = WEIGHTS_IN_SHARED ? weights_here[32 * i] : w[i];
          weights.flip(zero);
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            const float normal = Norm::normalized(v[k], mean, rstd), g = d[k] * weights[k];
            mine.of[0] += g * normal;
            if constexpr (Norm::CENTRED) mine.of[1] += g;
            of_weight[i][k] += d[k] * normal;
            if constexpr (Norm::CENTRED) of_bias[i][k] += d[k];
          }
        }
      }
      exchange.send(merge_lanes<32>(mine));
    }
    if (flow.has_row_before()) {
      const int inside = flow.row_before_exists() ? flow.inside : 0;
      const float mean_g = Norm::CENTRED ? totals.of[Norm::CENTRED] : 0.0f;
#pragma unroll
      for (int i = 0; i < VECS; i++) {
        const V d = flow.at(flow.before, 0, i), v = flow.at(flow.before, 1, i);
        V out, weights = WEIGHTS_IN_SHARED ? weights_here[32 * i] : w[i];
        weights.flip(zero);
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
          const float normal = Norm::normalized(v[k], mean_before, rstd_before);
          float value = Norm::gradient(d[k] * weights[k], normal, mean_g, totals.of[0], rstd_before);
          if constexpr (ADD) value += u[i][k];
          out.set(k, value);
        }
        if (i < inside) to[32 * i] = out;
      }
      flow.release(flow.before);
    }
    if (flow.has_row()) {
      totals = scale(exchange.receive(), 1.0f / (float)cols);
      if (flow.has_row_before()) flow.refill(flow.before, flow.stages - 1);
    }
  }

  // The sums of all groups, added in their order: always the same result.
  __syncthreads();
  const int64 first = blockIdx.x / flow.blocks * cols + flow.rank * flow.slice * WIDTH;
  const auto write = [&](float (&mine)[VECS][WIDTH], float* sums) {
    if (!sums) return;
#pragma unroll 1
    for (int group = 0; group < flow.groups; group++) {
      if (group == flow.group)
#pragma unroll
        for (int i = 0; i < VECS; i++)
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            float& sum = shared[flow.first + 32 * i + k * flow.slice];
            sum = group ? sum + mine[i][k] : mine[i][k];
          }
      __syncthreads();
    }
#pragma unroll 1
    for (int at = threadIdx.x; at < flow.count * WIDTH; at += blockDim.x)
      sums[first + at] = shared[at / WIDTH + at % WIDTH * flow.slice];
    __syncthreads();
  };
  write(of_weight, dw);
  if constexpr (Norm::CENTRED) write(of_bias, db);
}
