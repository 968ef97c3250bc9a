// Rotary position embedding of one tensor of [batch, heads, positions, columns] with neighbouring columns.
#include "../rows.hpp"

namespace {

template <class T>
void turn(const T* x, T* y, const T* cos, const T* sin, int64_t pairs, kl::wide<T> sign, bool interleaved) {
    const int64_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : pairs;
#pragma omp simd
    for (int64_t i = 0; i < pairs; ++i) {
        const auto c = kl::widen(cos[i]), s = kl::widen(sin[i]) * sign;
        const auto a = kl::widen(x[i * step]), b = kl::widen(x[i * step + apart]);
        kl::narrow(a * c - b * s, y[i * step]);
        kl::narrow(b * c + a * s, y[i * step + apart]);
    }
}

}  // namespace

// The tables are [positions, pairs], contiguous.
extern "C" void rope(kl::T* x, int64_t x_batch, int64_t x_head, int64_t x_position, kl::T* y, int64_t y_batch,
                     int64_t y_head, int64_t y_position, kl::T* cos, kl::T* sin, int64_t batches, int64_t heads,
                     int64_t positions, int64_t pairs, int64_t sign, int64_t interleaved, int64_t threads) {
    const int64_t rows = batches * heads * positions;
    kl::prefer_huge_pages(y, rows * 2 * pairs * sizeof(kl::T));
    const int64_t size = std::max<int64_t>(1, kl::piece_size(rows * 2 * pairs, threads) / (2 * pairs));
    const int64_t pieces = (rows + size - 1) / size;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (pieces > 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        for (int64_t row = piece * size; row < std::min(rows, (piece + 1) * size); ++row) {
            const int64_t position = row % positions, head = row / positions % heads, batch = row / positions / heads;
            turn(x + batch * x_batch + head * x_head + position * x_position,
                 y + batch * y_batch + head * y_head + position * y_position, cos + position * pairs,
                 sin + position * pairs, pairs, kl::wide<kl::T>(sign), interleaved != 0);
        }
    }
}
