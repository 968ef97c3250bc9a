// Square, elementwise.
#include "../rows.hpp"

extern "C" void square(const kl::T* x, kl::T* y, int64_t rows, int64_t cols, int64_t x_row, int64_t x_col,
                       int64_t y_row, int64_t y_col, int64_t threads) {
    kl::map(x, y, {rows, cols, x_row, x_col, y_row, y_col}, threads, [](auto v) { return v * v; });
}
