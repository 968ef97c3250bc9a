// How data is moved: walking rows × cols with any strides, on several threads. See layout.py.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dtypes.hpp"

// GCC keeps to half-width vectors on AVX-512 machines unless told; the kernels here gain a third.
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

namespace kl {

struct Rows {
    int64_t rows, cols, x_row, x_col, y_row, y_col;  // strides in elements
};

// Elements in one piece of work. Threads take pieces as they become free, so that a core that other
// programs are using delays one piece and not its whole share of the tensor. A piece is worth more than
// waking a thread: smaller tensors stay on the calling thread.
constexpr int64_t kPiece = 32 * 1024;

// y = f(x) for one run of elements.
template <class T, class F>
void map_run(const T* x, int64_t x_step, T* y, int64_t y_step, int64_t n, F f) {
    if (x_step == 1 && y_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) narrow(f(widen(x[i])), y[i]);
        return;
    }
    // Gathering first keeps f itself in vector code.
    constexpr int64_t kBlock = 256;
    wide<T> block[kBlock];
    for (int64_t start = 0; start < n; start += kBlock) {
        const int64_t count = std::min(kBlock, n - start);
        for (int64_t i = 0; i < count; ++i) block[i] = widen(x[(start + i) * x_step]);
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) block[i] = f(block[i]);
        for (int64_t i = 0; i < count; ++i) narrow(block[i], y[(start + i) * y_step]);
    }
}

// y = f(x) for every element. Pieces are cut without regard to rows: one long row is shared as well.
template <class T, class F>
void map(const T* x, T* y, Rows r, int64_t threads, F f) {
    const int64_t total = r.rows * r.cols;
    const int64_t pieces = (total + kPiece - 1) / kPiece;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (pieces > 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        int64_t left = std::min(kPiece, total - piece * kPiece);
        int64_t row = piece * kPiece / r.cols, col = piece * kPiece % r.cols;
        for (; left > 0; ++row, col = 0) {
            const int64_t n = std::min(left, r.cols - col);
            map_run(x + row * r.x_row + col * r.x_col, r.x_col, y + row * r.y_row + col * r.y_col, r.y_col, n, f);
            left -= n;
        }
    }
}

// f(x row, y row) for every row, each on one thread.
template <class T, class F>
void for_each_row(const T* x, T* y, Rows r, int64_t threads, F f) {
    const int64_t per_piece = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, r.cols));
#pragma omp parallel for num_threads(threads) schedule(dynamic, per_piece) if (r.rows > per_piece)
    for (int64_t row = 0; row < r.rows; ++row) f(x + row * r.x_row, y + row * r.y_row);
}

}  // namespace kl
