// The forward pass of a few queries, as when a model writes token by token. Vectors of queries would be mostly empty: the
// lanes of vectors are columns instead, and keys and values are used where they are.
#pragma once

#include <cmath>

#include "blocks.hpp"

namespace kl {

// Of a block of at most kMost queries, by one thread. Without dropout.
class ForwardOfFew {
public:
    static constexpr int64_t kMost = 8;

    ForwardOfFew(const Problem& p, const Heads& y, Wide* lse) : p_(p), y_(y), lse_(lse) {
        q_ = scratch_.matrix(kMost, p.columns);
        sums_ = scratch_.matrix(kMost, p.columns);
        scores_ = scratch_.matrix(kMost, kKeys);
        rows_ = scratch_.matrix(kKeys, round_up(p.columns, kTileRows));
    }

    void run(const Block& block) {
        for (int64_t m = 0; m < block.count; ++m) {
            const T* const row = p_.q.at(block.batch, block.head[m], block.query[m]);
            for (int64_t d = 0; d < p_.columns; ++d) q_.row(m)[d] = widen(row[d]) * p_.scale;
            std::fill(sums_.row(m), sums_.row(m) + p_.columns, Wide(0));
            top_[m] = -kInfinity, total_[m] = 0;
        }
        for (int64_t from = block.first_key; from < block.end_key; from += kKeys) {
            const int64_t count = std::min<int64_t>(kKeys, block.end_key - from);
            const Matrix<const Wide> keys = widened(p_.k, block, from, count);
            in_groups(block, [&](auto size, int64_t m) { multiply_keys<size>(keys, count, m); });
            for (int64_t m = 0; m < block.count; ++m) weigh(block, from, count, m);
            const Matrix<const Wide> values = widened(p_.v, block, from, count);
            in_groups(block, [&](auto size, int64_t m) {
                int64_t d = 0;
                constexpr int kVectors = 8 / size;  // eight sums do not wait for each other
                for (; p_.columns - d >= kVectors * kLanes; d += kVectors * kLanes)
                    add_values<size, kVectors>(values, count, m, d);
                for (; p_.columns - d >= kLanes; d += kLanes) add_values<size, 1>(values, count, m, d);
                for (; d < p_.columns; ++d) add_value<size>(values, count, m, d);
            });
        }
        for (int64_t m = 0; m < block.count; ++m) {
            const Wide inverse = total_[m] == 0 ? 0 : 1 / total_[m];
            T* const row = y_.at(block.batch, block.head[m], block.query[m]);
            for (int64_t d = 0; d < p_.columns; ++d) narrow(sums_.row(m)[d] * inverse, row[d]);
            lse_[p_.row(block.batch, block.head[m], block.query[m])] = top_[m] + std::log(total_[m]);
        }
    }

private:
    // f(size, first query) for groups of queries that read keys and values together.
    template <class F>
    void in_groups(const Block& block, F f) {
        int64_t m = 0;
        if (block.count == 8) return f(std::integral_constant<int, 8>{}, m);
        for (; block.count - m >= 4; m += 4) f(std::integral_constant<int, 4>{}, m);
        for (; block.count - m >= 2; m += 2) f(std::integral_constant<int, 2>{}, m);
        if (m < block.count) f(std::integral_constant<int, 1>{}, m);
    }

    // Rows of keys or values where they are, or widened copies.
    Matrix<const Wide> widened(const Heads& heads, const Block& block, int64_t from, int64_t count) {
        if (std::is_same_v<T, Wide>) return in_place(heads.at(block.batch, block.group, from), heads.row);
        load_keys(heads, block.batch, block.group, from, count, p_.columns, rows_);
        return rows_;
    }

    static Matrix<const Wide> in_place(const Wide* start, int64_t pitch) { return {start, pitch}; }
    template <class E>
    static Matrix<const Wide> in_place(const E*, int64_t) { return {}; }

    template <int SIZE>
    void multiply_keys(Matrix<const Wide> keys, int64_t count, int64_t first) {
        const int64_t whole = p_.columns / kLanes * kLanes;
        for (int64_t j = 0; j < count; ++j) {
            const Wide* const key = keys.row(j);
            Vector sums[SIZE] = {};
            for (int64_t d = 0; d < whole; d += kLanes) {
                const Vector part = *reinterpret_cast<const UnalignedVector*>(key + d);
#pragma GCC unroll 8
                for (int m = 0; m < SIZE; ++m)
                    sums[m] += reinterpret_cast<const Vector&>(q_.row(first + m)[d]) * part;
            }
#pragma GCC unroll 8
            for (int m = 0; m < SIZE; ++m) {
                Wide product = sum_lanes(sums[m]);
                for (int64_t d = whole; d < p_.columns; ++d) product += q_.row(first + m)[d] * key[d];
                scores_.row(first + m)[j] = product;
            }
        }
    }

    // Scores of a query become weights relative to the largest so far, and so do the sums.
    void weigh(const Block& block, int64_t from, int64_t count, int64_t m) {
        Wide* const row = scores_.row(m);
        if (p_.bias.start) {
            const T* const bias = p_.bias.at(block.batch, block.head[m], block.query[m]) + from * p_.bias.key;
            for (int64_t j = 0; j < count; ++j) row[j] += widen(bias[j * p_.bias.key]);
        }
        for (int64_t j = 0; j < count; ++j)
            if (from + j < block.begin[m] || from + j >= block.end[m]) row[j] = -kInfinity;
        const Wide top = std::max(top_[m], maximum(row, std::integral_constant<int64_t, 1>{}, count));
        const Wide base = top == -kInfinity ? 0 : top, shrink = exp_neg(top_[m] - base);
        Wide total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < count; ++j) {
            row[j] = exp_neg(row[j] - base);
            total += row[j];
        }
        Wide* const sums = sums_.row(m);
#pragma omp simd
        for (int64_t d = 0; d < p_.columns; ++d) sums[d] *= shrink;
        total_[m] = total_[m] * shrink + total;
        top_[m] = top;
    }

    template <int SIZE, int VECTORS>
    void add_values(Matrix<const Wide> values, int64_t count, int64_t first, int64_t d) {
        Vector sums[SIZE][VECTORS] = {};
        for (int64_t j = 0; j < count; ++j) {
            const UnalignedVector* const row = reinterpret_cast<const UnalignedVector*>(values.row(j) + d);
#pragma GCC unroll 8
            for (int m = 0; m < SIZE; ++m)
#pragma GCC unroll 8
                for (int i = 0; i < VECTORS; ++i) sums[m][i] += scores_.row(first + m)[j] * row[i];
        }
#pragma GCC unroll 8
        for (int m = 0; m < SIZE; ++m)
#pragma GCC unroll 8
            for (int i = 0; i < VECTORS; ++i)
                reinterpret_cast<Vector*>(sums_.row(first + m) + d)[i] += sums[m][i];
    }

    template <int SIZE>
    void add_value(Matrix<const Wide> values, int64_t count, int64_t first, int64_t d) {
        for (int m = 0; m < SIZE; ++m) {
            Wide sum = 0;
            for (int64_t j = 0; j < count; ++j) sum += scores_.row(first + m)[j] * values.row(j)[d];
            sums_.row(first + m)[d] += sum;
        }
    }

    const Problem& p_;
    const Heads& y_;
    Wide* const lse_;
    Scratch scratch_;
    Matrix<Wide> q_, sums_, scores_, rows_;
    Wide top_[kMost], total_[kMost];
};

}  // namespace kl
