// a·bᵀ tile by tile on the CPU, for ops that compute something of the products before they store it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "rows.hpp"

namespace kl {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kRowsAtOnce = 12;  // 24 sums, two vectors of b and one of a in 32 registers
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kRowsAtOnce = 6;  // of 16 registers
#else
constexpr int kVectorBytes = 16, kRowsAtOnce = 6;
#endif

using Wide = wide<T>;
typedef Wide Vector __attribute__((vector_size(kVectorBytes), aligned(alignof(Wide)), may_alias));
constexpr int kLanes = kVectorBytes / sizeof(Wide), kColsAtOnce = 2 * kLanes;
// A tile of sums and the slices of a and b that it is computed from stay in a core's own cache.
constexpr int64_t kTileRows = 32 * kRowsAtOnce, kTileCols = 8 * kColsAtOnce, kSlice = 256;

// [rows, depth], strides in elements.
struct Matrix {
    const T* start;
    int64_t row, col;
};

// Rows of a matrix in groups of GROUP, of which neighbouring elements are the rows of one column. Rows and columns beyond
// the ends are 0.
template <int GROUP>
void pack(Matrix from, int64_t rows, int64_t depth, Wide* to) {
    for (int64_t first = 0; first < rows; first += GROUP, to += GROUP * depth) {
        const int64_t count = std::min<int64_t>(GROUP, rows - first);
        for (int64_t i = 0; i < GROUP; ++i) {
            const T* const row = from.start + (first + i) * from.row;
            for (int64_t k = 0; k < depth; ++k) to[k * GROUP + i] = i < count ? widen(row[k * from.col]) : Wide(0);
        }
    }
}

// Adds the products of kRowsAtOnce rows of a and kColsAtOnce of b, both packed, to the sums.
inline void add_products(const Wide* a, const Wide* b, int64_t depth, Wide* sums) {
    Vector total[kRowsAtOnce][2] = {};
    for (int64_t k = 0; k < depth; ++k, a += kRowsAtOnce, b += kColsAtOnce) {
        const Vector left = *reinterpret_cast<const Vector*>(b), right = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 12
        for (int i = 0; i < kRowsAtOnce; ++i) {
            total[i][0] += a[i] * left;
            total[i][1] += a[i] * right;
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRowsAtOnce; ++i) {
        *reinterpret_cast<Vector*>(sums + i * kTileCols) += total[i][0];
        *reinterpret_cast<Vector*>(sums + i * kTileCols + kLanes) += total[i][1];
    }
}

// finish(row, col, rows, cols, sums) for every tile of a·bᵀ, on several threads: the sums of a row of the tile lie beside
// each other, those of the next row kTileCols further on.
template <class F>
void multiply(Matrix a, Matrix b, int64_t rows, int64_t cols, int64_t depth, int64_t threads, F finish) {
    const int64_t row_tiles = (rows + kTileRows - 1) / kTileRows, col_tiles = (cols + kTileCols - 1) / kTileCols;
    constexpr int64_t kNeeded = kTileRows * kTileCols + kSlice * (kTileRows + kTileCols);
#pragma omp parallel num_threads(threads) if (row_tiles * col_tiles > 1)
    {
        const std::unique_ptr<Wide[]> memory(new Wide[kNeeded]);
        Wide* const sums = memory.get();
        Wide* const packed_a = sums + kTileRows * kTileCols;
        Wide* const packed_b = packed_a + kSlice * kTileRows;
#pragma omp for schedule(dynamic)
        for (int64_t tile = 0; tile < row_tiles * col_tiles; ++tile) {
            const int64_t row = tile % row_tiles * kTileRows, col = tile / row_tiles * kTileCols;
            const int64_t height = std::min(kTileRows, rows - row), width = std::min(kTileCols, cols - col);
            std::fill(sums, sums + kTileRows * kTileCols, Wide(0));
            for (int64_t start = 0; start < depth; start += kSlice) {
                const int64_t count = std::min(kSlice, depth - start);
                pack<kRowsAtOnce>({a.start + row * a.row + start * a.col, a.row, a.col}, height, count, packed_a);
                pack<kColsAtOnce>({b.start + col * b.row + start * b.col, b.row, b.col}, width, count, packed_b);
                for (int64_t j = 0; j < width; j += kColsAtOnce)
                    for (int64_t i = 0; i < height; i += kRowsAtOnce)
                        add_products(packed_a + i * count, packed_b + j * count, count, sums + i * kTileCols + j);
            }
            finish(row, col, height, width, sums);
        }
    }
}

}  // namespace kl
