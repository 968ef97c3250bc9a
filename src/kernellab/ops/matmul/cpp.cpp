// c = a·b for matrices of any strides, in the arithmetic of the wider type.
//
// As on a GPU, speed is a matter of reuse: a core multiplies far faster than it loads. Each level of memory gets a tile:
//   - registers: kRows × kCols sums. One value of a and kCols of b are multiplied into each row, so that a value which is
//     loaded is used kCols or kRows times.
//   - L1: kDepth terms of kCols columns of b, which all rows of a block of a pass through.
//   - L2: a block of a, kDepth terms of kBlockRows rows, and the sums of kBlockRows × up to kBlockCols results.
// Both operands are packed: copied into the order in which they are read, and widened. Then no stride costs anything where
// the work is. b is packed once, by all threads. A thread takes a tile of the result and packs the rows of a for it.
#ifdef _OPENMP
#include <omp.h>
#endif

#include "../rows.hpp"

namespace {

using kl::T;
using V = kl::wide<T>;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kRows = 12;  // 24 sums, 2 vectors of b and one value of a, in 32 registers
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kRows = 6;  // 12 sums, in 16 registers
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16, kRows = 12;
#else
constexpr int kVectorBytes = 16, kRows = 6;
#endif
typedef V Vector __attribute__((vector_size(kVectorBytes), aligned(sizeof(V))));

constexpr int kLanes = kVectorBytes / sizeof(V), kCols = 2 * kLanes;
constexpr int64_t kDepth = 16 * 1024 / (kCols * sizeof(V));  // a panel of b is half of L1
// As in cpp.py:
constexpr int64_t kBlockRows = 144, kBlockCols = 512, kLeastCols = 128, kMostDepth = 512;
static_assert(kBlockRows % kRows == 0 && kLeastCols % kCols == 0 && kDepth <= kMostDepth);

int64_t ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }

// `lines` of an operand, terms `first` to `first + count` of each, in panels of WIDTH lines: the values of one term are
// neighbours. A panel's missing lines are 0.
template <int WIDTH>
void pack(const T* from, int64_t line_step, int64_t term_step, int64_t lines, int64_t count, V* to) {
    for (int64_t start = 0; start < lines; start += WIDTH, to += WIDTH * count) {
        const int64_t there = std::min<int64_t>(WIDTH, lines - start);
        const T* const panel = from + start * line_step;
        if (there < WIDTH) std::fill(to, to + WIDTH * count, V(0));
        if (line_step == 1 && there == WIDTH) {
            for (int64_t k = 0; k < count; ++k)
#pragma omp simd
                for (int64_t i = 0; i < WIDTH; ++i) to[k * WIDTH + i] = kl::widen(panel[k * term_step + i]);
        } else {
            // Some terms at a time, so that the cache holds what is written.
            for (int64_t part = 0; part < count; part += 16)
                for (int64_t i = 0; i < there; ++i)
                    for (int64_t k = part; k < std::min(part + 16, count); ++k)
                        to[k * WIDTH + i] = kl::widen(panel[i * line_step + k * term_step]);
        }
    }
}

// Adds the products of a panel of a with one of b to kRows × kCols sums, whose rows are `step` apart.
void multiply_panels(const V* a, const V* b, int64_t count, V* sums, int64_t step) {
    Vector total[kRows][2];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) total[i][0] = total[i][1] = Vector{};
    for (int64_t k = 0; k < count; ++k, a += kRows, b += kCols) {
        const Vector left = *reinterpret_cast<const Vector*>(b), right = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
            total[i][0] += a[i] * left;
            total[i][1] += a[i] * right;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
        *reinterpret_cast<Vector*>(sums + i * step) += total[i][0];
        *reinterpret_cast<Vector*>(sums + i * step + kLanes) += total[i][1];
    }
}

}  // namespace

// c is [rows, cols], contiguous. `packed` has room for b, `scratch` for a block of a and the sums of a tile for each thread.
extern "C" void matmul(const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, int64_t b_col, T* c, V* packed,
                       V* scratch, int64_t rows, int64_t cols, int64_t depth, int64_t threads) {
    kl::prefer_huge_pages(c, rows * cols * sizeof(T));
    const int64_t panels = ceil_div(cols, kCols), pieces = ceil_div(depth, kDepth), row_tiles = ceil_div(rows, kBlockRows);
    int64_t width = kBlockCols;  // of a tile: less where that leaves threads without work
    while (width > kLeastCols && row_tiles * ceil_div(cols, width) < 4 * threads) width /= 2;
    const int64_t col_tiles = ceil_div(cols, width), tiles = row_tiles * col_tiles;
    const bool parallel = threads > 1 && rows * cols * depth > 1 << 18;
    // The panels of one piece of the depth follow each other.
    const auto panel_at = [=](int64_t piece, int64_t panel) {
        return packed + kCols * (piece * kDepth * panels + panel * std::min(kDepth, depth - piece * kDepth));
    };
#pragma omp parallel num_threads(threads) if (parallel)
    {
#pragma omp for schedule(dynamic) collapse(2)
        for (int64_t piece = 0; piece < pieces; ++piece)
            for (int64_t panel = 0; panel < panels; ++panel)
                pack<kCols>(b + piece * kDepth * b_row + panel * kCols * b_col, b_col, b_row,
                            std::min<int64_t>(kCols, cols - panel * kCols), std::min(kDepth, depth - piece * kDepth),
                            panel_at(piece, panel));
#ifdef _OPENMP
        V* const mine = scratch + omp_get_thread_num() * (kBlockRows * (kMostDepth + kBlockCols));
#else
        V* const mine = scratch;
#endif
        V *const block = mine, *const sums = mine + kBlockRows * kMostDepth;
#pragma omp for schedule(dynamic)
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t row = tile / col_tiles * kBlockRows, col = tile % col_tiles * width;
            const int64_t height = std::min(kBlockRows, rows - row), wide = std::min(width, cols - col);
            std::fill(sums, sums + ceil_div(height, kRows) * kRows * width, V(0));
            for (int64_t piece = 0; piece < pieces; ++piece) {
                const int64_t first = piece * kDepth, count = std::min(kDepth, depth - first);
                pack<kRows>(a + row * a_row + first * a_col, a_row, a_col, height, count, block);
                for (int64_t j = 0; j < wide; j += kCols)
                    for (int64_t i = 0; i < height; i += kRows)
                        multiply_panels(block + i * count, panel_at(piece, (col + j) / kCols), count, sums + i * width + j,
                                        width);
            }
            for (int64_t i = 0; i < height; ++i) {
                T* const to = c + (row + i) * cols + col;
#pragma omp simd
                for (int64_t j = 0; j < wide; ++j) kl::narrow(sums[i * width + j], to[j]);
            }
        }
    }
}
