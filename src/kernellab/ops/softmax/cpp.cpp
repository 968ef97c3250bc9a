// Softmax along rows: eˣ⁻ᵐ / Σ eˣ⁻ᵐ with m the row's maximum.
// Three passes, of which only the first reads main memory: a row of 131072 floats still fits the L2 cache.
#include <limits>
#include <type_traits>

#include "../exp.hpp"
#include "../rows.hpp"

namespace {

// `step` is x's column stride, or a type that says at compile time that it is 1.
template <class T, class Step>
void softmax_row(const T* x, Step step, T* y, int64_t cols) {
    using V = kl::wide<T>;

    // A NaN never compares as greater; it comes back through the sum, as does −∞ − −∞.
    V top = -std::numeric_limits<V>::infinity();
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < cols; ++i) {
        const V value = kl::widen(x[i * step]);
        top = value > top ? value : top;
    }

    // y keeps eˣ⁻ᵐ for the last pass where it does so without rounding; else that pass computes it again.
    constexpr bool kKeep = std::is_same_v<T, V>;
    // Blocks are added up in double: the error does not grow with the length of the row.
    constexpr int64_t kBlock = 512;
    double total = 0;
    for (int64_t start = 0; start < cols; start += kBlock) {
        const int64_t end = std::min(start + kBlock, cols);
        V part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; ++i) {
            const V e = kl::exp_neg(kl::widen(x[i * step]) - top);
            if constexpr (kKeep) y[i] = e;
            part += e;
        }
        total += part;
    }

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

}  // namespace

// y's rows are contiguous: its column stride is always 1.
extern "C" void softmax(const kl::T* x, kl::T* y, int64_t rows, int64_t cols, int64_t x_row, int64_t x_col,
                        int64_t y_row, int64_t y_col, int64_t threads) {
    kl::for_each_row(x, y, {rows, cols, x_row, x_col, y_row, y_col}, threads, [=](const kl::T* x, kl::T* y) {
        if (x_col == 1) {
            softmax_row(x, std::integral_constant<int64_t, 1>{}, y, cols);
        } else {
            softmax_row(x, x_col, y, cols);
        }
    });
}
