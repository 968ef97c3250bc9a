// How data is moved: loops over rows × cols with any strides, on several threads. See layout.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "dtypes.hpp"
#include "philox.hpp"

// By default GCC uses half-width vectors on AVX-512 machines; with full width the kernels here gain a third.
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

namespace kl {

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

// A tensor of rows and columns; strides in elements.
struct Strided {
    T* start;
    int64_t row, col;
};

// The parameters of a C function that maps tensors, as Python passes them (maps_cpp.py).
#define KL_TENSOR(name) kl::T *name, int64_t name##_row, int64_t name##_col
#define KL_STRIDED(name) kl::Strided{name, name##_row, name##_col}
#define KL_RANDOM KL_TENSOR(index), int64_t seed, int64_t offset
#define KL_WORDS kl::RandomWords{{seed, offset}, index_row, index_col}
#define KL_SIZE int64_t rows, int64_t cols, int64_t threads

constexpr int64_t kBlock = 256;  // elements that are gathered, or get their random words, at once

// What a function without random words is given in place of them.
struct NoWords {
    static constexpr bool kDrawn = false;
    int64_t row = 0, col = 0;
};

// A random word for each element: a further input, which is computed from the element's index and not read. The indices
// lie like the elements of a tensor with these strides.
struct RandomWords {
    static constexpr bool kDrawn = true;
    Philox philox;
    int64_t row, col;

    // The words of `count` elements from index `first` on, at most kBlock, in the memory of `to`.
    const uint32_t* draw(int64_t first, int64_t count, uint32_t (&to)[kBlock + 8]) const {
        if (col != 1) {
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) to[i] = philox.word(first + i * col);
            return to;
        }
        const int64_t block = first >> 2, lead = first & 3, blocks = (lead + count + 3) >> 2;
#pragma omp simd
        for (int64_t i = 0; i < blocks; ++i) {
            uint32_t words[4];
            philox.block_words(block + i, words);
            for (int k = 0; k < 4; ++k) to[4 * i + k] = words[k];
        }
        return to + lead;
    }
};

template <int INS, class V, class F, class... Word>
inline auto call(F f, V a, V b, V c, Word... word) {
    if constexpr (INS == 1) {
        return f(a, word...);
    } else if constexpr (INS == 2) {
        return f(a, b, word...);
    } else {
        return f(a, b, c, word...);
    }
}

// One run of elements: f of INS inputs, and of a random word if they are drawn, is one output, or a std::pair of two.
// `at` has inputs, then outputs; `index` is that of the first element.
template <int INS, int OUTS, class F, class Words = NoWords>
void map_run(T* const* at, const int64_t* step, int64_t n, F f, const Words& words = {}, int64_t index = 0) {
    using V = wide<T>;
    const T *a = at[0], *b = at[INS > 1 ? 1 : 0], *c = at[INS > 2 ? 2 : 0];
    T *y = at[INS], *z = at[INS + OUTS - 1];
    uint32_t drawn[Words::kDrawn ? kBlock + 8 : 1];
    const uint32_t* word = drawn;
    const auto compute = [&](int64_t i, V a, V b, V c) {
        if constexpr (Words::kDrawn) {
            return call<INS>(f, a, b, c, word[i]);
        } else {
            return call<INS>(f, a, b, c);
        }
    };
    if (std::all_of(step, step + INS + OUTS, [](int64_t s) { return s == 1; })) {
        const int64_t block = Words::kDrawn ? kBlock : n;
        for (int64_t start = 0; start < n; start += block) {
            const int64_t count = std::min(block, n - start);
            if constexpr (Words::kDrawn) word = words.draw(index + start * words.col, count, drawn);
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) {
                const auto result = compute(i, widen(a[start + i]), widen(b[start + i]), widen(c[start + i]));
                if constexpr (OUTS == 1) {
                    narrow(result, y[start + i]);
                } else {
                    narrow(result.first, y[start + i]);
                    narrow(result.second, z[start + i]);
                }
            }
        }
        return;
    }
    // Gathering first keeps f itself in vector code.
    V in[3][kBlock], out[2][kBlock];
    for (int64_t start = 0; start < n; start += kBlock) {
        const int64_t count = std::min(kBlock, n - start);
        if constexpr (Words::kDrawn) word = words.draw(index + start * words.col, count, drawn);
        for (int k = 0; k < INS; ++k)
            for (int64_t i = 0; i < count; ++i) in[k][i] = widen(at[k][(start + i) * step[k]]);
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) {
            const auto result = compute(i, in[0][i], in[INS > 1 ? 1 : 0][i], in[INS > 2 ? 2 : 0][i]);
            if constexpr (OUTS == 1) {
                out[0][i] = result;
            } else {
                out[0][i] = result.first;
                out[1][i] = result.second;
            }
        }
        for (int k = 0; k < OUTS; ++k)
            for (int64_t i = 0; i < count; ++i) narrow(out[k][i], at[INS + k][(start + i) * step[INS + k]]);
    }
}

// f for every element. Pieces are cut without regard to rows: one long row is shared as well.
template <int INS, int COUNT, class F, class Words = NoWords>
void map(const Strided (&tensors)[COUNT], int64_t rows, int64_t cols, int64_t threads, F f, const Words& words = {}) {
    const int64_t total = rows * cols;
    const int64_t size = piece_size(total, threads);
    for (int k = INS; k < COUNT; ++k) prefer_huge_pages(tensors[k].start, total * sizeof(T));
    const int64_t pieces = (total + size - 1) / size;
    int64_t step[COUNT];
    for (int k = 0; k < COUNT; ++k) step[k] = tensors[k].col;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (pieces > 1)
    for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t start = piece * size;
        int64_t row = start / cols, col = start % cols;
        for (int64_t left = std::min(size, total - start); left > 0; ++row, col = 0) {
            const int64_t n = std::min(left, cols - col);
            T* at[COUNT];
            for (int k = 0; k < COUNT; ++k) at[k] = tensors[k].start + row * tensors[k].row + col * tensors[k].col;
            map_run<INS, COUNT - INS>(at, step, n, f, words, row * words.row + col * words.col);
            left -= n;
        }
    }
}

// The C functions of an activation A with A::value(x) and A::slope(x), its derivative: y = value(x), and its gradient.
#define KL_ACTIVATION(name, A)                                                                            \
    extern "C" void name(KL_TENSOR(x), KL_TENSOR(y), KL_SIZE) {                                           \
        kl::map<1>({KL_STRIDED(x), KL_STRIDED(y)}, rows, cols, threads, [](auto x) { return A::value(x); }); \
    }                                                                                                     \
    extern "C" void name##_backward(KL_TENSOR(dy), KL_TENSOR(x), KL_TENSOR(dx), KL_SIZE) {                \
        kl::map<2>({KL_STRIDED(dy), KL_STRIDED(x), KL_STRIDED(dx)}, rows, cols, threads,                  \
                   [](auto dy, auto x) { return dy * A::slope(x); });                                     \
    }

// The same for y = value(gate)·up.
#define KL_GATED(name, A)                                                                                 \
    extern "C" void name(KL_TENSOR(gate), KL_TENSOR(up), KL_TENSOR(y), KL_SIZE) {                         \
        kl::map<2>({KL_STRIDED(gate), KL_STRIDED(up), KL_STRIDED(y)}, rows, cols, threads,                \
                   [](auto gate, auto up) { return A::value(gate) * up; });                               \
    }                                                                                                     \
    extern "C" void name##_backward(KL_TENSOR(dy), KL_TENSOR(gate), KL_TENSOR(up), KL_TENSOR(dgate),      \
                                    KL_TENSOR(dup), KL_SIZE) {                                            \
        kl::map<3>({KL_STRIDED(dy), KL_STRIDED(gate), KL_STRIDED(up), KL_STRIDED(dgate), KL_STRIDED(dup)}, \
                   rows, cols, threads, [](auto dy, auto gate, auto up) {                                 \
                       return std::pair(dy * up * A::slope(gate), dy * A::value(gate));                   \
                   });                                                                                    \
    }

// f(row) for every row of `cols` elements, each on one thread.
template <class F>
void for_each_row(int64_t rows, int64_t cols, int64_t threads, F f) {
    const int64_t size = piece_size(rows * cols, threads);
    const int64_t per_piece = std::max<int64_t>(1, size / std::max<int64_t>(1, cols));
#pragma omp parallel for num_threads(threads) schedule(dynamic, per_piece) if (rows > per_piece)
    for (int64_t row = 0; row < rows; ++row) f(row);
}

// f(pointers to a row of each tensor) for every row, each on one thread. The last tensor is the output.
template <int COUNT, class F>
void for_each_row(const Strided (&tensors)[COUNT], int64_t rows, int64_t cols, int64_t threads, F f) {
    prefer_huge_pages(tensors[COUNT - 1].start, rows * cols * sizeof(T));
    for_each_row(rows, cols, threads, [&](int64_t row) {
        T* at[COUNT];
        for (int k = 0; k < COUNT; ++k) at[k] = tensors[k].start + row * tensors[k].row;
        f(at);
    });
}

// f(step), where step is the number or, if it is 1, a type that says so at compile time.
template <class F>
void with_step(int64_t step, F f) {
    if (step == 1) {
        f(std::integral_constant<int64_t, 1>{});
    } else {
        f(step);
    }
}

// The C functions of an op F along rows, whose gradient is computed from its result: F::row(x, step of x, y, cols) and
// F::backward_row(dy, step of dy, y, dx, cols). Results are contiguous, and so is y in backward.
#define KL_ROWS(name, F)                                                                                  \
    extern "C" void name(KL_TENSOR(x), KL_TENSOR(y), KL_SIZE) {                                           \
        kl::with_step(x_col, [=](auto step) {                                                             \
            kl::for_each_row({KL_STRIDED(x), KL_STRIDED(y)}, rows, cols, threads,                         \
                             [=](kl::T** at) { F::row(at[0], step, at[1], cols); });                      \
        });                                                                                               \
    }                                                                                                     \
    extern "C" void name##_backward(KL_TENSOR(dy), KL_TENSOR(y), KL_TENSOR(dx), KL_SIZE) {                \
        kl::with_step(dy_col, [=](auto step) {                                                            \
            kl::for_each_row({KL_STRIDED(dy), KL_STRIDED(y), KL_STRIDED(dx)}, rows, cols, threads,        \
                             [=](kl::T** at) { F::backward_row(at[0], step, at[1], at[2], cols); });      \
        });                                                                                               \
    }

// The maximum of a row. A NaN never compares as greater; in a softmax it comes back through the sum, as does −∞ − −∞.
template <class T, class Step>
wide<T> maximum(const T* x, Step step, int64_t cols) {
    using V = wide<T>;
    V top = -std::numeric_limits<V>::infinity();
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < cols; ++i) {
        const V value = widen(x[i * step]);
        top = value > top ? value : top;
    }
    return top;
}

// The sum of term(i) for i < n. Blocks are added up in double: the error does not grow with n.
template <class F>
double sum(int64_t n, F term) {
    constexpr int64_t kBlock = 512;
    double total = 0;
    for (int64_t start = 0; start < n; start += kBlock) {
        const int64_t end = std::min(start + kBlock, n);
        decltype(term(0)) part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; ++i) part += term(i);
        total += part;
    }
    return total;
}

// The sums of two terms, in one walk.
template <class F, class G>
std::pair<double, double> sum_both(int64_t n, F first, G second) {
    constexpr int64_t kBlock = 512;
    double totals[2] = {};
    for (int64_t start = 0; start < n; start += kBlock) {
        const int64_t end = std::min(start + kBlock, n);
        decltype(first(0)) a = 0;
        decltype(second(0)) b = 0;
#pragma omp simd reduction(+ : a, b)
        for (int64_t i = start; i < end; ++i) {
            a += first(i);
            b += second(i);
        }
        totals[0] += a;
        totals[1] += b;
    }
    return {totals[0], totals[1]};
}

}  // namespace kl
