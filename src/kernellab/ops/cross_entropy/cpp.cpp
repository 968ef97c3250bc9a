// Cross-entropy of rows of logits with a target column each.
// Two or three passes over a row, of which only the first reads main memory.
#include <cmath>
#include <limits>

#include "../exp.hpp"
#include "../rows.hpp"

namespace {

using kl::T;
using V = kl::wide<T>;

// The log-sum-exp of a row in two parts, so that a probability near 1 keeps the digits of its distance from 1.
struct LogSumExp {
    V peak, log_total;
};

// The loss of a row, and its log-sum-exp. Differences are taken before the logarithm is added: it is small.
template <class Step>
V loss_of_row(const T* x, Step step, int64_t cols, int64_t target, V smoothing, LogSumExp& lse) {
    const V peak = kl::maximum(x, step, cols);
    const V log_total = V(std::log(kl::sum(cols, [=](int64_t i) { return kl::exp_neg(kl::widen(x[i * step]) - peak); })));
    lse = {peak, log_total};
    if (target < 0 || target >= cols) return std::numeric_limits<V>::quiet_NaN();
    const V loss = log_total + (peak - kl::widen(x[target * step]));
    if (smoothing == 0) return loss;
    const V below = V(kl::sum(cols, [=](int64_t i) { return peak - kl::widen(x[i * step]); }) / cols);
    return (1 - smoothing) * loss + smoothing * (log_total + below);
}

// scale·(softmax − smoothing/cols), and scale·(1 − smoothing) less at the target.
template <class Step>
void gradient_of_row(const T* x, Step step, T* dx, int64_t cols, int64_t target, V smoothing, LogSumExp lse, V scale) {
    const V even = smoothing / V(cols);
    if (target < 0 || target >= cols) scale = std::numeric_limits<V>::quiet_NaN();
#pragma omp simd
    for (int64_t i = 0; i < cols; ++i)
        kl::narrow(scale * (kl::exp_neg(kl::widen(x[i * step]) - lse.peak - lse.log_total) - even), dx[i]);
    if (target < 0 || target >= cols) return;
    const V above = std::expm1(kl::widen(x[target * step]) - lse.peak - lse.log_total);  // the probability − 1
    kl::narrow(scale * (above + (smoothing - even)), dx[target]);
}

}  // namespace

// `losses` and `lse` are [rows]. A target outside [0, cols) gives NaN, and nothing is read for it.
extern "C" void cross_entropy(KL_TENSOR(x), const int64_t* target, int64_t target_step, V* losses, LogSumExp* lse,
                              int64_t ignore_index, double smoothing, KL_SIZE) {
    kl::with_step(x_col, [=](auto step) {
        kl::for_each_row(rows, cols, threads, [=](int64_t row) {
            const int64_t col = target[row * target_step];
            losses[row] = 0;
            lse[row] = {0, 0};
            if (col != ignore_index) losses[row] = loss_of_row(x + row * x_row, step, cols, col, V(smoothing), lse[row]);
        });
    });
}

// `scales` is [rows]: the upstream gradients. dx is contiguous.
extern "C" void cross_entropy_backward(KL_TENSOR(x), const int64_t* target, int64_t target_step, const LogSumExp* lse,
                                       const V* scales, int64_t scale_step, T* dx, int64_t ignore_index,
                                       double smoothing, KL_SIZE) {
    kl::prefer_huge_pages(dx, rows * cols * sizeof(T));
    kl::with_step(x_col, [=](auto step) {
        kl::for_each_row(rows, cols, threads, [=](int64_t row) {
            const int64_t col = target[row * target_step];
            T* const out = dx + row * cols;
            if (col == ignore_index) {
                std::fill(out, out + cols, T{});  // the bits of +0 in every type
            } else {
                gradient_of_row(x + row * x_row, step, out, cols, col, V(smoothing), lse[row], scales[row * scale_step]);
            }
        });
    });
}
