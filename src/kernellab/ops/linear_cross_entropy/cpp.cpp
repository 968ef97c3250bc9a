// Cross-entropy of rows of logits, and in the place of the logits their gradient.
#include "../cross_entropy/cpp.cpp"

namespace {

// As gradient_of_row, in place: the target's logit is read before it is overwritten.
void convert_row(T* x, int64_t cols, int64_t target, V smoothing, LogSumExp lse, V scale) {
    const V even = smoothing / V(cols);
    const bool valid = target >= 0 && target < cols;
    if (!valid) scale = std::numeric_limits<V>::quiet_NaN();
    const V own = valid ? kl::widen(x[target]) : V(0);
#pragma omp simd
    for (int64_t i = 0; i < cols; ++i)
        kl::narrow(scale * (kl::exp_neg(kl::widen(x[i]) - lse.peak - lse.log_total) - even), x[i]);
    if (!valid) return;
    const V above = std::expm1(own - lse.peak - lse.log_total);  // the probability − 1
    kl::narrow(scale * (above + (smoothing - even)), x[target]);
}

}  // namespace

// Rows of `cols` logits are x_row elements apart. `losses` and `scales` may be null: then there are no losses, or the logits
// stay. Row i has the scale scales[i·scale_step].
extern "C" void linear_cross_entropy_convert(T* x, int64_t x_row, const int64_t* target, int64_t target_step,
                                             const V* scales, int64_t scale_step, V* losses, int64_t ignore_index,
                                             double smoothing, KL_SIZE) {
    kl::for_each_row(rows, cols, threads, [=](int64_t row) {
        T* const logits = x + row * x_row;
        const int64_t col = target[row * target_step];
        V loss = 0;
        if (col == ignore_index) {
            if (scales) std::fill(logits, logits + cols, T{});  // the bits of +0 in every type
        } else {
            LogSumExp lse;
            loss = loss_of_row(logits, std::integral_constant<int64_t, 1>{}, cols, col, V(smoothing), lse);
            if (scales) convert_row(logits, cols, col, V(smoothing), lse, scales[row * scale_step]);
        }
        if (losses) losses[row] = loss;
    });
}
