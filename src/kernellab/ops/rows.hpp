// How data is moved: loops over rows × cols with any strides, on several threads. See layout.py.
#pragma once

#include <algorithm>
#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "dtypes.hpp"

// By default GCC uses half-width vectors on AVX-512 machines; with full width the kernels here gain a third.
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

namespace kl {

struct Rows {
    int64_t rows, cols, x_row, x_col, y_row, y_col;  // strides in elements
};

// Elements in one piece of work. Threads take pieces as they become free, so that a core that other
// programs are using delays one piece and not its whole share of the tensor. Less than 32K elements is not
// worth waking a thread for; 512K elements of float32 are one huge page, see below.
inline int64_t piece_size(int64_t total, int64_t threads) {
    return std::clamp<int64_t>(total / (16 * threads), 32 * 1024, 512 * 1024);
}

// A large output is new memory from the system. Its first write causes a page fault every 4 KB, which takes
// longer than the arithmetic. The hint to use 2 MB pages has no effect on pages that exist already. Below
// 32 MB, the C library may keep the memory for other uses, which should not inherit the hint.
inline void prefer_huge_pages(void* start, int64_t bytes) {
#ifdef __linux__
    constexpr uintptr_t kHuge = 2 << 20;
    if (bytes < 32 << 20) return;
    const uintptr_t first = (uintptr_t(start) + kHuge - 1) & -kHuge;
    const uintptr_t last = (uintptr_t(start) + uintptr_t(bytes)) & -kHuge;
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

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
    const int64_t size = piece_size(total, threads);
    prefer_huge_pages(y, total * sizeof(T));
    const int64_t pieces = (total + size - 1) / size;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (pieces > 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t start = piece * size;
        int64_t row = start / r.cols, col = start % r.cols;
        for (int64_t left = std::min(size, total - start); left > 0; ++row, col = 0) {
            const int64_t n = std::min(left, r.cols - col);
            const T* from = x + row * r.x_row + col * r.x_col;
            T* to = y + row * r.y_row + col * r.y_col;
            map_run(from, r.x_col, to, r.y_col, n, f);
            left -= n;
        }
    }
}

// f(x row, y row) for every row, each on one thread.
template <class T, class F>
void for_each_row(const T* x, T* y, Rows r, int64_t threads, F f) {
    const int64_t size = piece_size(r.rows * r.cols, threads);
    prefer_huge_pages(y, r.rows * r.cols * sizeof(T));
    const int64_t per_piece = std::max<int64_t>(1, size / std::max<int64_t>(1, r.cols));
#pragma omp parallel for num_threads(threads) schedule(dynamic, per_piece) if (r.rows > per_piece)
    for (int64_t row = 0; row < r.rows; ++row) f(x + row * r.x_row, y + row * r.y_row);
}

}  // namespace kl
