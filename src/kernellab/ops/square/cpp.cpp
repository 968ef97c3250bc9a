// Square = x·x.
#include "../rows.hpp"

#define ENTRY(suffix, T)                                                                            \
    extern "C" void square_##suffix(const T* x, T* y, int64_t rows, int64_t cols, int64_t x_row,    \
                                    int64_t x_col, int64_t y_row, int64_t y_col, int64_t threads) { \
        kl::Rows size{rows, cols, x_row, x_col, y_row, y_col};                                      \
        kl::map(x, y, size, threads, [](auto v) { return v * v; });                                 \
    }
KL_FOR_EACH_DTYPE(ENTRY)
