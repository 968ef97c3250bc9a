// Norms of wide, aligned rows, both passes: pipeline.cuh moves the rows; norms.cuh says what the kernels are given.
#pragma once

#include "norms_backward.cuh"
#include "pipeline.cuh"

__device__ __forceinline__ float add_lanes(float value) { return merge_lanes<32>(Sums<1>{{value}}).of[0]; }

// How many elements there are, their sum, and the sum of their squared distances from their mean. The squares of all
// elements of a row follow from those of its warps: no difference of large sums is taken.
struct Distribution {
  float seen, sum, squares;

  __device__ static Distribution nothing() { return {0.0f, 0.0f, 0.0f}; }
};

template <int EACH>
__device__ __forceinline__ Distribution merge_warps(Distribution (&parts)[EACH]) {
  Sums<2> all = Sums<2>::nothing();
#pragma unroll
  for (int i = 0; i < EACH; i++) all.of[0] += parts[i].seen, all.of[1] += parts[i].sum;
  all = merge_lanes<32>(all);
  const float mean = all.of[1] / all.of[0];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const float apart = parts[i].seen > 0.0f ? parts[i].sum / parts[i].seen - mean : 0.0f;
    squares += parts[i].squares + apart * parts[i].seen * apart;
  }
  return {all.of[0], all.of[1], add_lanes(squares)};
}

template <bool FIRST, class A, class B> struct Choose { typedef A type; };
template <class A, class B> struct Choose<false, A, B> { typedef B type; };

// The sum of squares, for a norm that subtracts no mean.
typedef Sums<1> Squares;

template <class Norm, bool ADD, typename T, int WIDTH, int VECS>
__global__ void __launch_bounds__(512, 1)
norm_pipeline(const T* x, int64 x_row, const T* residual, int64 r_row, const T* weight, const T* bias, T* y, T* total,
              float* means, float* rstds, int64 rows, int64 cols, double eps, int64 warps, int64 stages) {
  typedef Vec<T, WIDTH> V;
  extern __shared__ float shared[];
  Flow<T, WIDTH, VECS, ADD ? 2 : 1> flow(reinterpret_cast<V*>(shared), rows, cols / WIDTH, warps, stages);
  flow.inputs[0] = {x, x_row};
  if constexpr (ADD) flow.inputs[1] = {residual, r_row};
  typedef typename Choose<Norm::CENTRED, Distribution, Squares>::type Found;
  Exchange<Found> exchange(flow);
  V w[VECS], b[VECS];
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    if (weight && flow.inside(i)) w[i] = *reinterpret_cast<const V*>(weight + flow.offset(i));
    if (bias && flow.inside(i)) b[i] = *reinterpret_cast<const V*>(bias + flow.offset(i));
  }
  float mean = 0.0f, rstd = 0.0f;

  for (flow.begin(); flow.goes_on(); flow.advance()) {
    if (flow.has_row()) {
      flow.wait();
      V v[VECS];
      float seen = 0.0f, sum = 0.0f;
#pragma unroll
      for (int i = 0; i < VECS; i++) {
#pragma unroll
        for (int k = 0; k < WIDTH; k++) v[i].set(k, 0.0f);
        if (!flow.exists(flow.row) || !flow.inside(i)) continue;
        v[i] = flow.read(flow.now, 0, i);
        if constexpr (ADD) {
          const V r = flow.read(flow.now, 1, i);
#pragma unroll
          for (int k = 0; k < WIDTH; k++) v[i].set(k, v[i][k] + r[k]);
          __stcs(&reinterpret_cast<V*>(total + flow.row * cols + flow.offset(i))->raw, v[i].raw);
          flow.place(flow.now.stage, 0, flow.group)[flow.at(i)] = v[i];
        }
        seen += WIDTH;
        if constexpr (Norm::CENTRED)
#pragma unroll
          for (int k = 0; k < WIDTH; k++) sum += v[i][k];
      }
      if constexpr (Norm::CENTRED) {
        const Sums<2> of_warp = merge_lanes<32>(Sums<2>{{seen, sum}});
        const float middle = of_warp.of[1] / of_warp.of[0];  // NaN in a warp without elements, which has no squares
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < VECS; i++)
          if (i * WIDTH < seen)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) squares += (v[i][k] - middle) * (v[i][k] - middle);
        exchange.send(flow, Found{of_warp.of[0], of_warp.of[1], add_lanes(squares)});
      } else {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < VECS; i++)
#pragma unroll
          for (int k = 0; k < WIDTH; k++) squares += v[i][k] * v[i][k];
        exchange.send(flow, Found{add_lanes(squares)});
      }
    }
    if (flow.has_row_before()) {
      if (flow.exists(flow.row_before)) {
        T* const to = y + flow.row_before * cols;
#pragma unroll
        for (int i = 0; i < VECS; i++) {
          if (!flow.inside(i)) continue;
          const V v = flow.read(flow.before, 0, i);
          V out;
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            float value = Norm::normalized(v[k], mean, rstd);
            if (weight) value *= w[i][k];
            if (bias) value += b[i][k];
            out.set(k, value);
          }
          __stcs(&reinterpret_cast<V*>(to + flow.offset(i))->raw, out.raw);
        }
      }
      flow.release();
    }
    if (flow.has_row()) {
      const Found all = exchange.receive(flow);
      float squares;
      if constexpr (Norm::CENTRED) {
        mean = all.sum / (float)cols, squares = all.squares;
      } else {
        squares = all.of[0];
      }
      rstd = rsqrtf(squares / (float)cols + (float)eps);
      if (flow.thread == 0 && flow.rank == 0 && flow.exists(flow.row)) {
        if constexpr (Norm::CENTRED) means[flow.row] = mean;
        rstds[flow.row] = rstd;
      }
      flow.refill();
    }
  }
}

// dw and db are [teams, cols]: a team's sums. The gradient of the sum of x and the residual, `up`, is added.
template <class Norm, bool ADD, typename T, int WIDTH, int VECS>
__global__ void __launch_bounds__(512, 1)
norm_backward_pipeline(const T* dy, int64 dy_row, const T* x, int64 x_row, const T* up, int64 up_row, const T* weight,
                       const float* means, const float* rstds, T* dx, float* dw, float* db, int64 rows, int64 cols,
                       int64 warps, int64 stages) {
  typedef Vec<T, WIDTH> V;
  typedef Sums<Norm::CENTRED ? 2 : 1> Totals;
  extern __shared__ float shared[];
  Flow<T, WIDTH, VECS, ADD ? 3 : 2> flow(reinterpret_cast<V*>(shared), rows, cols / WIDTH, warps, stages);
  flow.inputs[0] = {dy, dy_row};
  flow.inputs[1] = {x, x_row};
  if constexpr (ADD) flow.inputs[2] = {up, up_row};
  Exchange<Totals> exchange(flow);
  V w[VECS];
  float of_weight[VECS][WIDTH], of_bias[VECS][WIDTH];
#pragma unroll
  for (int i = 0; i < VECS; i++) {
    w[i] = weight && flow.inside(i) ? *reinterpret_cast<const V*>(weight + flow.offset(i)) : ones<T, WIDTH>();
#pragma unroll
    for (int k = 0; k < WIDTH; k++) of_weight[i][k] = of_bias[i][k] = 0.0f;
  }
  const float per_element = 1.0f / (float)cols;
  // Of the row before, the present and the next: the last is loaded long before it is needed.
  float mean_before = 0.0f, rstd_before = 0.0f, mean = 0.0f, rstd = 0.0f, next_mean = 0.0f, next_rstd = 0.0f;
  const auto load_next = [&](int64 row) {
    if (!flow.exists(row)) return;
    next_rstd = rstds[row];
    if constexpr (Norm::CENTRED) next_mean = means[row];
  };
  load_next(flow.row);
  Totals totals = Totals::nothing();

  for (flow.begin(); flow.goes_on(); flow.advance()) {
    mean_before = mean, rstd_before = rstd, mean = next_mean, rstd = next_rstd;
    if (flow.has_row()) {
      load_next(flow.row + flow.step);
      flow.wait();
      Totals mine = Totals::nothing();
      if (flow.exists(flow.row)) {
#pragma unroll
        for (int i = 0; i < VECS; i++) {
          if (!flow.inside(i)) continue;
          const V d = flow.read(flow.now, 0, i), v = flow.read(flow.now, 1, i);
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            const float normal = Norm::normalized(v[k], mean, rstd), g = d[k] * w[i][k];
            mine.of[0] += g * normal;
            if constexpr (Norm::CENTRED) mine.of[1] += g;
            of_weight[i][k] += d[k] * normal;
            if constexpr (Norm::CENTRED) of_bias[i][k] += d[k];
          }
        }
      }
      exchange.send(flow, merge_lanes<32>(mine));
    }
    if (flow.has_row_before()) {
      if (flow.exists(flow.row_before)) {
        T* const to = dx + flow.row_before * cols;
        const float mean_g = Norm::CENTRED ? totals.of[Norm::CENTRED] : 0.0f;
#pragma unroll
        for (int i = 0; i < VECS; i++) {
          if (!flow.inside(i)) continue;
          const V d = flow.read(flow.before, 0, i), v = flow.read(flow.before, 1, i);
          V u, out;
          if constexpr (ADD) u = flow.read(flow.before, 2, i);
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            const float normal = Norm::normalized(v[k], mean_before, rstd_before);
            float value = Norm::gradient(d[k] * w[i][k], normal, mean_g, totals.of[0], rstd_before);
            if constexpr (ADD) value += u[k];
            out.set(k, value);
          }
          __stcs(&reinterpret_cast<V*>(to + flow.offset(i))->raw, out.raw);
        }
      }
      flow.release();
    }
    if (flow.has_row()) {
      totals = scale(exchange.receive(flow), per_element);
      flow.refill();
    }
  }

  // The sums of all groups, added in their order: always the same result.
  __syncthreads();
  const int64 team = blockIdx.x / flow.blocks;
  const auto write = [&](float (&mine)[VECS][WIDTH], float* to) {
    if (!to) return;
    for (int group = 0; group < flow.groups; group++) {
      if (group == flow.group)
#pragma unroll
        for (int i = 0; i < VECS; i++)
#pragma unroll
          for (int k = 0; k < WIDTH; k++) {
            float& sum = shared[flow.at(i) + k * flow.slice];
            sum = group ? sum + mine[i][k] : mine[i][k];
          }
      __syncthreads();
    }
    for (int at = threadIdx.x; at < flow.count; at += flow.groups * flow.threads)
#pragma unroll
      for (int k = 0; k < WIDTH; k++)
        to[team * cols + (flow.first_access + at) * WIDTH + k] = shared[at + k * flow.slice];
    __syncthreads();
  };
  write(of_weight, dw);
  if constexpr (Norm::CENTRED) write(of_bias, db);
}
