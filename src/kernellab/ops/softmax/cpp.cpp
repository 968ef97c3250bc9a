// Softmax along rows: eˣ⁻ᵐ / Σ eˣ⁻ᵐ with m the row's maximum.
// Three passes, of which only the first reads main memory: a row of 131072 floats still fits the L2 cache.
#include "../exp.hpp"
#include "../rows.hpp"

namespace {

struct Softmax {
    template <class T, class Step>
    static void row(const T* x, Step step, T* y, int64_t cols) {
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
    static void backward_row(const T* dy, Step step, const T* y, T* dx, int64_t cols) {
        using V = kl::wide<T>;
        const V total = V(kl::sum(cols, [=](int64_t i) { return kl::widen(dy[i * step]) * kl::widen(y[i]); }));
#pragma omp simd
        for (int64_t i = 0; i < cols; ++i) kl::narrow(kl::widen(y[i]) * (kl::widen(dy[i * step]) - total), dx[i]);
    }
};

}  // namespace

KL_ROWS(softmax, Softmax)
