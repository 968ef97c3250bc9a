// Softmax along rows: eˣ⁻ᵐ / Σ eˣ⁻ᵐ with m the row's maximum.
// Three passes, of which only the first reads main memory: a row of 131072 floats still fits the L2 cache.
#include "../exp.hpp"
#include "../rows.hpp"

namespace {

template <class T, class Step>
void softmax_row(const T* x, Step step, T* y, int64_t cols) {
    using V = kl::wide<T>;
    const V top = kl::maximum(x, step, cols);
    // y keeps eˣ⁻ᵐ for the last pass where it does so without rounding; else that pass computes it again.
    constexpr bool kKeep = std::is_same_v<T, V>;
    const double total = kl::sum(cols, [=](int64_t i) {
        const V e = kl::exp_neg(kl::widen(x[i * step]) - top);
        if constexpr (kKeep) y[i] = e;
        return e;
    });
    const V scale = V(1 / total);
#pragma omp simd
    for (int64_t i = 0; i < cols; ++i) {
        if constexpr (kKeep) {
            y[i] *= scale;
        } else {
            kl::narrow(kl::exp_neg(kl::widen(x[i * step]) - top) * scale, y[i]);
        }
    }
}

// With y the result: y·(dy − Σ dy·y).
template <class T, class Step>
void softmax_backward_row(const T* dy, Step step, const T* y, T* dx, int64_t cols) {
    using V = kl::wide<T>;
    const V total = V(kl::sum(cols, [=](int64_t i) { return kl::widen(dy[i * step]) * kl::widen(y[i]); }));
#pragma omp simd
    for (int64_t i = 0; i < cols; ++i) kl::narrow(kl::widen(y[i]) * (kl::widen(dy[i * step]) - total), dx[i]);
}

}  // namespace

// Results are contiguous, and so is y in backward: their column strides are 1.
extern "C" void softmax(KL_TENSOR(x), KL_TENSOR(y), KL_SIZE) {
    kl::with_step(x_col, [=](auto step) {
        kl::for_each_row({KL_STRIDED(x), KL_STRIDED(y)}, rows, cols, threads,
                         [=](kl::T** at) { softmax_row(at[0], step, at[1], cols); });
    });
}

extern "C" void softmax_backward(KL_TENSOR(dy), KL_TENSOR(y), KL_TENSOR(dx), KL_SIZE) {
    kl::with_step(dy_col, [=](auto step) {
        kl::for_each_row({KL_STRIDED(dy), KL_STRIDED(y), KL_STRIDED(dx)}, rows, cols, threads,
                         [=](kl::T** at) { softmax_backward_row(at[0], step, at[1], at[2], cols); });
    });
}
