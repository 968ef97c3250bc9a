// The logarithm of softmax along rows: x − m − log Σ eˣ⁻ᵐ with m the row's maximum.
// Three passes, of which only the first reads main memory: a row of 131072 floats still fits the L2 cache.
#include "../exp.hpp"
#include "../rows.hpp"

namespace {

struct LogSoftmax {
    template <class T, class Step>
    static void row(const T* x, Step step, T* y, int64_t cols) {
        using V = kl::wide<T>;
        const V top = kl::maximum(x, step, cols);
        const double total = kl::sum(cols, [=](int64_t i) { return kl::exp_neg(kl::widen(x[i * step]) - top); });
        const V log_total = V(std::log(total));
        // The difference is taken before the logarithm is subtracted, which is small.
#pragma omp simd
        for (int64_t i = 0; i < cols; ++i) kl::narrow((kl::widen(x[i * step]) - top) - log_total, y[i]);
    }

    // With y the result: dy − eʸ·Σ dy.
    template <class T, class Step>
    static void backward_row(const T* dy, Step step, const T* y, T* dx, int64_t cols) {
        using V = kl::wide<T>;
        const V total = V(kl::sum(cols, [=](int64_t i) { return kl::widen(dy[i * step]); }));
#pragma omp simd
        for (int64_t i = 0; i < cols; ++i)
            kl::narrow(kl::widen(dy[i * step]) - kl::exp_neg(kl::widen(y[i])) * total, dx[i]);
    }
};

}  // namespace

KL_ROWS(log_softmax, LogSoftmax)
