// c = a·b for matrices of any strides. ../products.hpp has the loops.
#include "../products.hpp"

// c is [rows, cols], contiguous.
extern "C" void matmul(KL_TENSOR(a), KL_TENSOR(b), kl::T* c, int64_t rows, int64_t cols, int64_t depth, int64_t threads) {
    kl::prefer_huge_pages(c, rows * cols * sizeof(kl::T));
    kl::multiply(KL_STRIDED(a), KL_STRIDED(b), rows, cols, depth, threads,
                 [=](int64_t row, int64_t col, int64_t height, int64_t width, const kl::V* sums, int64_t step) {
                     for (int64_t i = 0; i < height; ++i, sums += step) {
                         kl::T* const to = c + (row + i) * cols + col;
#pragma omp simd
                         for (int64_t j = 0; j < width; ++j) kl::narrow(sums[j], to[j]);
                     }
                 });
}
