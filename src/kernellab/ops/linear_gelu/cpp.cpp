// GeLU of x·Wᵀ + bias: bias and GeLU are computed of a tile of products while it is in the cache.
#include "../gelu/cpp.cpp"
#include "../products.hpp"

namespace {

using kl::T;
using V = kl::wide<T>;

// x is [rows, depth] and w [cols, depth], y and z contiguous. `bias` and `z` may be null.
template <class A>
void forward(kl::Strided x, kl::Strided w, const T* bias, T* y, T* z, int64_t rows, int64_t cols, int64_t depth,
             int64_t threads) {
    kl::prefer_huge_pages(y, rows * cols * sizeof(T));
    if (z) kl::prefer_huge_pages(z, rows * cols * sizeof(T));
    const auto finish = [=](int64_t row, int64_t col, int64_t height, int64_t width, V* sums, int64_t step) {
        for (int64_t i = 0; i < height; ++i, sums += step) {
            const int64_t at = (row + i) * cols + col;
            if (bias)
                for (int64_t j = 0; j < width; ++j) sums[j] += kl::widen(bias[col + j]);
            if (z)
                for (int64_t j = 0; j < width; ++j) kl::narrow(sums[j], z[at + j]);
#pragma omp simd
            for (int64_t j = 0; j < width; ++j) kl::narrow(A::value(sums[j]), y[at + j]);
        }
    };
    kl::multiply(x, {w.start, w.col, w.row}, rows, cols, depth, threads, finish);
}

// dz = dy·slope(z), and with dbias its sum over the rows. z and dz are contiguous, and a thread takes whole columns: their
// sums are added up in one order.
template <class A>
void slope(kl::Strided dy, const T* z, T* dz, T* dbias, int64_t rows, int64_t cols, int64_t threads) {
    constexpr int64_t kStrip = 512;
    kl::prefer_huge_pages(dz, rows * cols * sizeof(T));
    const int64_t strips = (cols + kStrip - 1) / kStrip;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (rows * cols > 32 * 1024)
    for (int64_t strip = 0; strip < strips; ++strip) {
        const int64_t first = strip * kStrip, count = std::min(kStrip, cols - first);
        double totals[kStrip] = {};
        for (int64_t row = 0; row < rows; ++row) {
            const T* const upstream = dy.start + row * dy.row + first * dy.col;
            const int64_t at = row * cols + first;
            kl::with_step(dy.col, [&](auto step) {
#pragma omp simd
                for (int64_t j = 0; j < count; ++j) {
                    const V value = kl::widen(upstream[j * step]) * A::slope(kl::widen(z[at + j]));
                    kl::narrow(value, dz[at + j]);
                    totals[j] += value;
                }
            });
        }
        if (dbias)
            for (int64_t j = 0; j < count; ++j) kl::narrow(V(totals[j]), dbias[first + j]);
    }
}

}  // namespace

#define KL_LINEAR(name, A)                                                                                             \
    extern "C" void linear_##name(KL_TENSOR(x), KL_TENSOR(w), const T* bias, T* y, T* z, int64_t rows, int64_t cols,   \
                                  int64_t depth, int64_t threads) {                                                    \
        forward<A>(KL_STRIDED(x), KL_STRIDED(w), bias, y, z, rows, cols, depth, threads);                      \
    }                                                                                                                  \
    extern "C" void linear_##name##_slope(KL_TENSOR(dy), const T* z, T* dz, T* dbias, KL_SIZE) {                       \
        slope<A>(KL_STRIDED(dy), z, dz, dbias, rows, cols, threads);                                                   \
    }

KL_LINEAR(gelu_tanh, GeluTanh)
KL_LINEAR(gelu_erf, GeluErf)
