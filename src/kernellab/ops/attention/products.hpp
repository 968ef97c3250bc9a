// Products of matrices that are in cache: the inner loops of ops that are made of such products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "../dtypes.hpp"

namespace kl {

using Wide = wide<T>;

// A tile of a product is kept in registers: kTileRows rows of kTileVectors vectors. There is room left for a row of the
// right factor, and for an element of the left one.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kTileVectors = 4;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kTileVectors = 2;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16, kTileVectors = 4;
#else
constexpr int kVectorBytes = 16, kTileVectors = 2;
#endif
constexpr int kTileRows = 6;
constexpr int kLanes = kVectorBytes / sizeof(Wide);  // elements of a vector
constexpr int kFewestLanes = 16 / sizeof(Wide);  // of the narrowest vector

template <int BYTES>
struct VectorOf {
    typedef Wide type __attribute__((vector_size(BYTES), may_alias));
};

using Vector = typename VectorOf<kVectorBytes>::type;
typedef Vector UnalignedVector __attribute__((aligned(sizeof(Wide))));

template <int BYTES = kVectorBytes>
inline Wide sum_lanes(typename VectorOf<BYTES>::type v) {
    if constexpr (BYTES > 16) {
        typename VectorOf<BYTES / 2>::type halves[2];
        std::memcpy(halves, &v, sizeof v);
        return sum_lanes<BYTES / 2>(halves[0] + halves[1]);
    } else {
        Wide total = v[0];
        for (int i = 1; i < kFewestLanes; ++i) total += v[i];
        return total;
    }
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A matrix whose rows are `pitch` elements apart.
template <class E>
struct Matrix {
    E* start;
    int64_t pitch;

    E* row(int64_t i) const { return start + i * pitch; }
    Matrix below(int64_t i) const { return {row(i), pitch}; }
    operator Matrix<const E>() const { return {start, pitch}; }
};

// kTileRows rows and VECTORS vectors of columns of a product: see multiply().
template <bool TRANSPOSED, bool ADD, int BYTES, int VECTORS>
inline void multiply_tile(Matrix<const Wide> a, Matrix<const Wide> b, Matrix<Wide> c, int64_t depth) {
    using Vector = typename VectorOf<BYTES>::type;
    Vector sums[kTileRows][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; ++j) sums[i][j] = Vector{};
    for (int64_t k = 0; k < depth; ++k) {
        Vector right[VECTORS];
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; ++j) right[j] = reinterpret_cast<const Vector*>(b.row(k))[j];
#pragma GCC unroll 8
        for (int i = 0; i < kTileRows; ++i) {
            const Wide left = TRANSPOSED ? a.row(k)[i] : a.row(i)[k];
#pragma GCC unroll 8
            for (int j = 0; j < VECTORS; ++j) sums[i][j] += left * right[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; ++j) {
            Vector& out = reinterpret_cast<Vector*>(c.row(i))[j];
            // Added at the end: a sum of parts has smaller rounding errors than one that goes through all of them.
            out = ADD ? out + sums[i][j] : sums[i][j];
        }
}

// C = A·B, or C += A·B. If TRANSPOSED, A is in memory with its columns as rows. `rows` is a multiple of kTileRows,
// `columns` of kFewestLanes; `depth` is the size of the dim that is summed over. Rows of B and C begin at multiples of
// kVectorBytes.
template <bool TRANSPOSED, bool ADD>
void multiply(Matrix<const Wide> a, Matrix<const Wide> b, Matrix<Wide> c, int64_t rows, int64_t columns,
              int64_t depth) {
    int64_t j = 0;
    const auto add_columns = [&](auto bytes, auto vectors) {
        for (int64_t i = 0; i < rows; i += kTileRows)
            multiply_tile<TRANSPOSED, ADD, bytes, vectors>({TRANSPOSED ? a.start + i : a.row(i), a.pitch},
                                                           {b.start + j, b.pitch}, {c.row(i) + j, c.pitch}, depth);
        j += vectors * bytes / sizeof(Wide);
    };
    constexpr std::integral_constant<int, kVectorBytes> kFull;
    while (columns - j >= kTileVectors * kLanes) add_columns(kFull, std::integral_constant<int, kTileVectors>{});
    if constexpr (kTileVectors > 2)
        if (columns - j >= 2 * kLanes) add_columns(kFull, std::integral_constant<int, 2>{});
    if (columns - j >= kLanes) add_columns(kFull, std::integral_constant<int, 1>{});
    if constexpr (kVectorBytes > 32)
        if (columns - j >= 2 * kFewestLanes)
            add_columns(std::integral_constant<int, 32>{}, std::integral_constant<int, 1>{});
    if constexpr (kVectorBytes > 16)
        if (columns - j >= kFewestLanes)
            add_columns(std::integral_constant<int, 16>{}, std::integral_constant<int, 1>{});
}

// C = A·B, the sums in parts.
inline void multiply_in_parts(Matrix<const Wide> a, Matrix<const Wide> b, Matrix<Wide> c, int64_t rows, int64_t columns,
                              int64_t depth) {
    constexpr int64_t kPart = 64;
    multiply<false, false>(a, b, c, rows, columns, std::min(kPart, depth));
    for (int64_t k = kPart; k < depth; k += kPart)
        multiply<false, true>({a.start + k, a.pitch}, b.below(k), c, rows, columns, std::min(kPart, depth - k));
}

}  // namespace kl
