// Norms along rows: how rows are moved, and the sums over them. The op's Norm says what is computed:
// Norm::kCentred, whether the mean is subtracted; Norm::normalized(x, mean, rstd); and Norm::gradient(g, normal, mean_g,
// mean_product, rstd), the gradient of x from that of the normalized values, g, and the means of g and of g·normal.
#pragma once

#include <cmath>

#include "rows.hpp"

namespace kl {

using Wide = wide<T>;

// A null pointer where there is no such parameter.
struct Parameters {
    const T *weight, *bias;
};

template <class Norm>
struct Statistics {
    Wide mean, rstd;

    // Two passes: the squares are those of differences from the mean.
    template <class Value>
    Statistics(Value value, int64_t cols, double eps) {
        double squares = walk(value, cols);
        // Squares of finite numbers above 2⁶⁴ overflow float, but not double.
        if (!std::isfinite(squares)) squares = walk([=](int64_t i) { return double(value(i)); }, cols);
        rstd = Wide(1 / std::sqrt(squares / cols + eps));
    }

    // Sets the mean, and returns the sum of squared distances from it.
    template <class Value>
    double walk(Value value, int64_t cols) {
        using V = decltype(value(0));
        const V centre = Norm::kCentred ? V(sum(cols, value) / cols) : V(0);
        mean = Wide(centre);
        return sum(cols, [=](int64_t i) {
            const V distance = Norm::kCentred ? value(i) - centre : value(i);
            return distance * distance;
        });
    }
};

// A parameter as a function of the column. One that is not there is a constant, so that loops do not branch on it.
struct Nothing {
    Wide value;
    Wide operator()(int64_t) const { return value; }
};
struct Parameter {
    const T* start;
    Wide operator()(int64_t i) const { return widen(start[i]); }
};

template <class F>
void with_parameter(const T* start, Wide otherwise, F f) {
    if (start) {
        f(Parameter{start});
    } else {
        f(Nothing{otherwise});
    }
}

template <class Norm, class Step>
void norm_row(const T* x, Step step, Parameters p, T* y, int64_t cols, double eps, Wide* mean, Wide* rstd) {
    const Statistics<Norm> row([=](int64_t i) { return widen(x[i * step]); }, cols, eps);
    if (mean) *mean = row.mean;
    *rstd = row.rstd;
    with_parameter(p.weight, 1, [=](auto weight) {
        with_parameter(p.bias, 0, [=](auto bias) {
#pragma omp simd
            for (int64_t i = 0; i < cols; ++i)
                narrow(Norm::normalized(widen(x[i * step]), row.mean, row.rstd) * weight(i) + bias(i), y[i]);
        });
    });
}

template <class Norm>
void norm(Strided x, Parameters p, T* y, Wide* mean, Wide* rstd, double eps, int64_t rows, int64_t cols,
          int64_t threads) {
    with_step(x.col, [=](auto step) {
        for_each_row({x, Strided{y, cols, 1}}, rows, cols, threads, [=](T** at) {
            const int64_t row = (at[1] - y) / cols;
            norm_row<Norm>(at[0], step, p, at[1], cols, eps, mean ? mean + row : nullptr, rstd + row);
        });
    });
}

// x + residual is rounded into `total` and then normalized.
template <class Norm>
void add_norm(Strided x, Strided residual, Parameters p, T* y, T* total, Wide* mean, Wide* rstd, double eps,
              int64_t rows, int64_t cols, int64_t threads) {
    constexpr std::integral_constant<int64_t, 1> kUnit;
    prefer_huge_pages(total, rows * cols * sizeof(T));
    for_each_row({x, residual, Strided{y, cols, 1}}, rows, cols, threads, [=](T** at) {
        const int64_t row = (at[2] - y) / cols;
        T* const to = total + row * cols;
        T* const run[] = {at[0], at[1], to};
        const int64_t steps[] = {x.col, residual.col, 1};
        map_run<2, 1>(run, steps, cols, [](auto a, auto b) { return a + b; });
        norm_row<Norm>(to, kUnit, p, at[2], cols, eps, mean ? mean + row : nullptr, rstd + row);
    });
}

// The tensors of a backward pass; `upstream`, the gradient of the sum of x and a residual, has no start where there is
// none. dw and db are [slices, cols], or null.
struct Backward {
    Strided dy, x, upstream;
    const T* weight;
    const Wide *mean, *rstd;
    T* dx;
    Wide *dw, *db;
};

template <class Norm, class Step, class Weight>
void norm_backward_row(const Backward& p, Step step, int64_t row, int64_t cols, Weight weight, Wide* dw, Wide* db) {
    const T* const dy = p.dy.start + row * p.dy.row;
    const T* const x = p.x.start + row * p.x.row;
    const auto dy_at = [=](int64_t i) { return widen(dy[i * step.dy]); };
    const Wide rstd = p.rstd[row], mean = p.mean ? p.mean[row] : Wide(0);
    const auto normal_at = [=](int64_t i) { return Norm::normalized(widen(x[i * step.x]), mean, rstd); };
    const auto g_at = [=](int64_t i) { return dy_at(i) * weight(i); };
    const auto [total_g, total_product] = sum_both(cols, g_at, [=](int64_t i) { return g_at(i) * normal_at(i); });
    const Wide mean_g = Wide(total_g / cols), mean_product = Wide(total_product / cols);
    T* const dx = p.dx + row * cols;
    const auto gradient = [=](int64_t i) {
        return Norm::gradient(g_at(i), normal_at(i), mean_g, mean_product, rstd);
    };
    // One loop for all that is written: each row's elements are loaded and normalized once.
    const auto write = [=](auto upstream_at) {
        if (dw && db) {
#pragma omp simd
            for (int64_t i = 0; i < cols; ++i) {
                narrow(gradient(i) + upstream_at(i), dx[i]);
                dw[i] += dy_at(i) * normal_at(i);
                db[i] += dy_at(i);
            }
        } else if (dw) {
#pragma omp simd
            for (int64_t i = 0; i < cols; ++i) {
                narrow(gradient(i) + upstream_at(i), dx[i]);
                dw[i] += dy_at(i) * normal_at(i);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < cols; ++i) narrow(gradient(i) + upstream_at(i), dx[i]);
            if (db)
                for (int64_t i = 0; i < cols; ++i) db[i] += dy_at(i);
        }
    };
    if (p.upstream.start) {
        const T* const up = p.upstream.start + row * p.upstream.row;
        const int64_t up_step = p.upstream.col;
        write([=](int64_t i) { return widen(up[i * up_step]); });
    } else {
        write(Nothing{0});
    }
}

struct UnitSteps {
    static constexpr std::integral_constant<int64_t, 1> dy{}, x{};
};
struct Steps {
    int64_t dy, x;
};

// The sums over `slices` rows of `from`, rounded.
inline void add_slices(const Wide* from, T* to, int64_t slices, int64_t cols, int64_t threads) {
    constexpr int64_t kBlock = 1024;
#pragma omp parallel for num_threads(threads) if (slices * cols > 1 << 17)
    for (int64_t start = 0; start < cols; start += kBlock) {
        const int64_t count = std::min(kBlock, cols - start);
        Wide total[kBlock] = {};
        for (int64_t slice = 0; slice < slices; ++slice)
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) total[i] += from[slice * cols + start + i];
        for (int64_t i = 0; i < count; ++i) narrow(total[i], to[start + i]);
    }
}

template <class Norm>
void norm_backward(const Backward& p, T* dweight, T* dbias, int64_t slices, int64_t rows, int64_t cols,
                   int64_t threads) {
    prefer_huge_pages(p.dx, rows * cols * sizeof(T));
    const int64_t per_slice = (rows + slices - 1) / slices;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (rows * cols > 1 << 15)
    for (int64_t slice = 0; slice < slices; ++slice) {
        Wide* const dw = p.dw ? p.dw + slice * cols : nullptr;
        Wide* const db = p.db ? p.db + slice * cols : nullptr;
        if (dw) std::fill(dw, dw + cols, Wide(0));
        if (db) std::fill(db, db + cols, Wide(0));
        const int64_t end = std::min((slice + 1) * per_slice, rows);
        for (int64_t row = slice * per_slice; row < end; ++row)
            with_parameter(p.weight, 1, [&](auto weight) {
                if (p.dy.col == 1 && p.x.col == 1) {
                    norm_backward_row<Norm>(p, UnitSteps{}, row, cols, weight, dw, db);
                } else {
                    norm_backward_row<Norm>(p, Steps{p.dy.col, p.x.col}, row, cols, weight, dw, db);
                }
            });
    }
    if (p.dw) add_slices(p.dw, dweight, slices, cols, threads);
    if (p.db) add_slices(p.db, dbias, slices, cols, threads);
}

// The C functions of a norm, as Python calls them (norms_cpp.py).
#define KL_NORM(name, Norm)                                                                                     \
    extern "C" void name(KL_TENSOR(x), const kl::T* weight, const kl::T* bias, kl::T* y, kl::T*, kl::Wide* mean, \
                         kl::Wide* rstd, double eps, KL_SIZE) {                                                 \
        kl::norm<Norm>(KL_STRIDED(x), {weight, bias}, y, mean, rstd, eps, rows, cols, threads);                 \
    }                                                                                                           \
    extern "C" void name##_backward(KL_TENSOR(dy), KL_TENSOR(x), KL_NORM_BACKWARD, KL_SIZE) {                    \
        kl::norm_backward<Norm>({KL_STRIDED(dy), KL_STRIDED(x), {}, weight, mean, rstd, dx, dw, db}, dweight,   \
                                dbias, slices, rows, cols, threads);                                            \
    }

// The same with a residual.
#define KL_ADD_NORM(name, Norm)                                                                                 \
    extern "C" void name(KL_TENSOR(x), KL_TENSOR(residual), const kl::T* weight, const kl::T* bias, kl::T* y,   \
                         kl::T* total, kl::Wide* mean, kl::Wide* rstd, double eps, KL_SIZE) {                   \
        kl::add_norm<Norm>(KL_STRIDED(x), KL_STRIDED(residual), {weight, bias}, y, total, mean, rstd, eps,      \
                           rows, cols, threads);                                                                \
    }                                                                                                           \
    extern "C" void name##_backward(KL_TENSOR(dy), KL_TENSOR(x), KL_TENSOR(up), KL_NORM_BACKWARD, KL_SIZE) {     \
        kl::norm_backward<Norm>({KL_STRIDED(dy), KL_STRIDED(x), KL_STRIDED(up), weight, mean, rstd, dx, dw, db}, \
                                dweight, dbias, slices, rows, cols, threads);                                   \
    }

#define KL_NORM_BACKWARD                                                                                        \
    const kl::T *weight, const kl::Wide *mean, const kl::Wide *rstd, kl::T *dx, kl::Wide *dw, kl::Wide *db,     \
        kl::T *dweight, kl::T *dbias, int64_t slices

}  // namespace kl
