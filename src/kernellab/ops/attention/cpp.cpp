// Attention, block by block: the weights of a block of queries and a block of keys are in cache, never in memory.
#include <cmath>

#include "blocks.hpp"
#include "few.hpp"

namespace {

using kl::Block, kl::Heads, kl::Matrix, kl::Problem, kl::T, kl::Wide;
using kl::kInfinity, kl::kKeys, kl::kQueries, kl::kTileRows;

// The forward pass of a block of queries, by one thread.
class Forward {
public:
    Forward(const Problem& p, const Heads& y, Wide* lse)
        : p_(p), y_(y), lse_(lse), padded_(kl::round_up(p.columns, kTileRows)) {
        q_ = scratch_.matrix(p.columns, kQueries);
        k_ = scratch_.matrix(kKeys, padded_);
        v_ = scratch_.matrix(kKeys, padded_);
        scores_ = scratch_.matrix(kKeys, kQueries);
        sums_ = scratch_.matrix(padded_, kQueries);
        if (p.dropout.active) factors_ = scratch_.matrix(kKeys, kQueries);
    }

    void run(const Block& block) {
        kl::load_columns(block, p_.q, p_.columns, p_.scale, q_);
        for (int64_t m = 0; m < block.width; ++m) top_[m] = -kInfinity, total_[m] = 0;
        for (int64_t d = 0; d < padded_; ++d) std::fill(sums_.row(d), sums_.row(d) + block.width, Wide(0));
        for (int64_t from = block.first_key; from < block.end_key; from += kKeys)
            add_keys(block, from, std::min<int64_t>(kKeys, block.end_key - from));
        store(block);
    }

private:
    void add_keys(const Block& block, int64_t from, int64_t count) {
        kl::load_keys(p_.k, block.batch, block.group, from, count, p_.columns, k_);
        kl::load_keys(p_.v, block.batch, block.group, from, count, p_.columns, v_);
        kl::multiply_in_parts(k_, q_, scores_, kl::round_up(count, kTileRows), block.width, p_.columns);
        kl::finish_scores(p_, block, from, count, scores_);
        kl::with_width(block, [&](auto width) { weigh(width, count); });
        if (p_.dropout.active) {
            kl::draw_factors(p_, block, from, count, factors_);
            for (int64_t j = 0; j < count; ++j)
                for (int64_t m = 0; m < block.width; ++m) scores_.row(j)[m] *= factors_.row(j)[m];
        }
        kl::multiply<true, true>(v_, scores_, sums_, padded_, block.width, count);
    }

    // Scores become weights relative to the largest score of their query so far, and so do the sums.
    template <class Width>
    void weigh(Width width, int64_t count) {
        Wide top[kQueries], base[kQueries], shrink[kQueries];
        std::copy(top_, top_ + width, top);
        for (int64_t j = 0; j < count; ++j) {
            const Wide* const row = scores_.row(j);
#pragma omp simd
            for (int64_t m = 0; m < width; ++m) top[m] = row[m] > top[m] ? row[m] : top[m];
        }
#pragma omp simd
        for (int64_t m = 0; m < width; ++m) {
            base[m] = top[m] == -kInfinity ? 0 : top[m];
            shrink[m] = kl::exp_neg(top_[m] - base[m]);
            top_[m] = top[m];
            total_[m] *= shrink[m];
        }
        for (int64_t j = 0; j < count; j += kTileRows) {
            // A few weights are added up apart, so that rounding errors grow less.
            Wide part[kQueries] = {};
            for (int64_t i = j; i < std::min(j + kTileRows, count); ++i) {
                Wide* const row = scores_.row(i);
#pragma omp simd
                for (int64_t m = 0; m < width; ++m) {
                    row[m] = kl::exp_neg(row[m] - base[m]);
                    part[m] += row[m];
                }
            }
#pragma omp simd
            for (int64_t m = 0; m < width; ++m) total_[m] += part[m];
        }
        for (int64_t d = 0; d < padded_; ++d) {
            Wide* const row = sums_.row(d);
#pragma omp simd
            for (int64_t m = 0; m < width; ++m) row[m] *= shrink[m];
        }
    }

    void store(const Block& block) {
        for (int64_t m = 0; m < block.count; ++m) {
            const Wide inverse = total_[m] == 0 ? 0 : 1 / total_[m];
            T* const row = y_.at(block.batch, block.head[m], block.query[m]);
            for (int64_t d = 0; d < p_.columns; ++d) kl::narrow(sums_.row(d)[m] * inverse, row[d]);
            lse_[p_.row(block.batch, block.head[m], block.query[m])] = top_[m] + std::log(total_[m]);
        }
    }

    const Problem& p_;
    const Heads& y_;
    Wide* const lse_;
    const int64_t padded_;
    kl::Scratch scratch_;
    Matrix<Wide> q_, k_, v_, scores_, sums_, factors_;
    alignas(64) Wide top_[kQueries], total_[kQueries];
};

// The tensors of a backward pass. A null pointer stands for a gradient that nobody asks for.
struct Gradients {
    Heads dy, y;
    const Wide* lse;
    Heads dq, dk, dv;
    T* dbias;  // contiguous
    Wide* partial_dq;  // [slices, batch, heads, queries, columns], where there is more than one slice
    int64_t slices, keys_per_slice;
};

// The backward pass of a slice of the keys of a group, by one thread. Gradients of keys and values are complete then;
// those of queries are what these keys contribute.
class Backward {
public:
    Backward(const Problem& p, const Gradients& g)
        : p_(p), g_(g), padded_(kl::round_up(p.columns, kTileRows)), vectors_(kl::round_up(p.columns, kl::kFewestLanes)) {
        for (Matrix<Wide>* m : {&q_, &dy_}) *m = scratch_.matrix(p.columns, kQueries);
        for (Matrix<Wide>* m : {&q_rows_, &dy_rows_}) *m = scratch_.matrix(kQueries, vectors_);
        for (Matrix<Wide>* m : {&k_, &v_}) *m = scratch_.matrix(kKeys, padded_);
        for (Matrix<Wide>* m : {&weights_, &slopes_}) *m = scratch_.matrix(kKeys, kQueries);
        for (Matrix<Wide>* m : {&dk_, &dv_}) *m = scratch_.matrix(kl::round_up(g.keys_per_slice, kKeys), vectors_);
        dq_ = scratch_.matrix(padded_, kQueries);
        if (p.dropout.active) factors_ = scratch_.matrix(kKeys, kQueries);
    }

    void run(int64_t batch, int64_t group, int64_t slice) {
        slice_ = slice;
        first_ = slice * g_.keys_per_slice;
        end_ = std::min(first_ + g_.keys_per_slice, p_.keys);
        for (Matrix<Wide>& sums : {std::ref(dk_), std::ref(dv_)})
            for (int64_t j = 0; j < end_ - first_; ++j) std::fill(sums.row(j), sums.row(j) + vectors_, Wide(0));
        for (int64_t index = 0; index < p_.blocks_of_group(); ++index) add_queries(Block(p_, batch, group, index));
        if (g_.dk.start) store(dk_, p_.scale, g_.dk, batch, group);
        if (g_.dv.start) store(dv_, 1, g_.dv, batch, group);
    }

private:
    void add_queries(const Block& block) {
        const int64_t first = std::max(first_, block.first_key), end = std::min(end_, block.end_key);
        if (first < end) {
            kl::load_columns(block, p_.q, p_.columns, p_.scale, q_);
            kl::load_columns(block, g_.dy, p_.columns, 1, dy_);
            kl::load_rows(block, p_.q, p_.columns, q_rows_, vectors_);
            kl::load_rows(block, g_.dy, p_.columns, dy_rows_, vectors_);
            load_rows_sums(block);
        }
        for (int64_t d = 0; d < padded_; ++d) std::fill(dq_.row(d), dq_.row(d) + block.width, Wide(0));
        for (int64_t from = first; from < end; from += kKeys)
            add_keys(block, from, std::min<int64_t>(kKeys, end - from));
        if (g_.dq.start) store_dq(block);
    }

    // Of each query: the log-sum-exp of its scores, and the sum of y·dy, which is that of weights times their gradients.
    void load_rows_sums(const Block& block) {
        for (int64_t m = 0; m < block.width; ++m) {
            lse_[m] = mean_[m] = 0;
            if (m >= block.count) continue;
            const Wide lse = g_.lse[p_.row(block.batch, block.head[m], block.query[m])];
            lse_[m] = lse == -kInfinity ? 0 : lse;
            const T* const y = g_.y.at(block.batch, block.head[m], block.query[m]);
            const Wide* const dy = dy_rows_.row(m);
            mean_[m] = Wide(kl::sum(p_.columns, [=](int64_t d) { return kl::widen(y[d]) * dy[d]; }));
        }
    }

    void add_keys(const Block& block, int64_t from, int64_t count) {
        const int64_t rows = kl::round_up(count, kTileRows), width = block.width, place = from - first_;
        const bool through_scores = g_.dq.start || g_.dk.start || g_.dbias;
        kl::load_keys(p_.k, block.batch, block.group, from, count, p_.columns, k_);
        kl::multiply_in_parts(k_, q_, weights_, rows, width, p_.columns);
        kl::finish_scores(p_, block, from, count, weights_);
        for (int64_t j = count; j < rows; ++j) std::fill(weights_.row(j), weights_.row(j) + width, -kInfinity);
        kl::with_width(block, [&](auto width) {
            for (int64_t j = 0; j < rows; ++j) {
                Wide* const weights = weights_.row(j);
#pragma omp simd
                for (int64_t m = 0; m < width; ++m) weights[m] = kl::exp_neg(weights[m] - lse_[m]);
            }
        });
        if (through_scores) {
            kl::load_keys(p_.v, block.batch, block.group, from, count, p_.columns, v_);
            kl::multiply_in_parts(v_, dy_, slopes_, rows, width, p_.columns);
        }
        if (p_.dropout.active) {
            kl::draw_factors(p_, block, from, count, factors_);
            for (int64_t j = count; j < rows; ++j) std::fill(factors_.row(j), factors_.row(j) + width, Wide(0));
        }
        for (int64_t j = 0; j < rows; ++j) {
            Wide *const weights = weights_.row(j), *const slopes = slopes_.row(j);
            if (p_.dropout.active) {
                const Wide* const factors = factors_.row(j);
                for (int64_t m = 0; m < width; ++m) {
                    slopes[m] = weights[m] * (slopes[m] * factors[m] - mean_[m]);
                    weights[m] *= factors[m];
                }
            } else if (through_scores) {
#pragma omp simd
                for (int64_t m = 0; m < width; ++m) slopes[m] = weights[m] * (slopes[m] - mean_[m]);
            }
        }
        if (g_.dv.start) kl::multiply<false, true>(weights_, dy_rows_, dv_.below(place), rows, vectors_, width);
        if (g_.dk.start) kl::multiply<false, true>(slopes_, q_rows_, dk_.below(place), rows, vectors_, width);
        if (g_.dq.start) kl::multiply<true, true>(k_, slopes_, dq_, padded_, width, count);
        if (g_.dbias) store_dbias(block, from, count);
    }

    void store_dbias(const Block& block, int64_t from, int64_t count) {
        for (int64_t m = 0; m < block.count; ++m) {
            T* const row = g_.dbias + p_.row(block.batch, block.head[m], block.query[m]) * p_.keys;
            for (int64_t j = 0; j < count; ++j) kl::narrow(slopes_.row(j)[m], row[from + j]);
        }
    }

    void store_dq(const Block& block) {
        for (int64_t m = 0; m < block.count; ++m) {
            if (g_.slices == 1) {
                T* const to = g_.dq.at(block.batch, block.head[m], block.query[m]);
                for (int64_t d = 0; d < p_.columns; ++d) kl::narrow(dq_.row(d)[m] * p_.scale, to[d]);
            } else {
                const int64_t rows = p_.batches * p_.heads * p_.queries;
                const int64_t row = slice_ * rows + p_.row(block.batch, block.head[m], block.query[m]);
                Wide* const to = g_.partial_dq + row * p_.columns;
                for (int64_t d = 0; d < p_.columns; ++d) to[d] = dq_.row(d)[m];
            }
        }
    }

    void store(Matrix<Wide> sums, Wide scale, const Heads& to, int64_t batch, int64_t group) {
        for (int64_t j = first_; j < end_; ++j) {
            const Wide* const row = sums.row(j - first_);
            T* const out = to.at(batch, group, j);
#pragma omp simd
            for (int64_t d = 0; d < p_.columns; ++d) kl::narrow(row[d] * scale, out[d]);
        }
    }

    const Problem& p_;
    const Gradients& g_;
    const int64_t padded_, vectors_;
    kl::Scratch scratch_;
    Matrix<Wide> q_, dy_, q_rows_, dy_rows_, k_, v_, weights_, slopes_, dk_, dv_, dq_, factors_;
    int64_t slice_, first_, end_;
    alignas(64) Wide lse_[kQueries], mean_[kQueries];
};

// The sums of the slices' gradients of queries.
void add_slices(const Problem& p, const Gradients& g, int64_t threads) {
    const int64_t rows = p.batches * p.heads * p.queries;
#pragma omp parallel for num_threads(threads)
    for (int64_t row = 0; row < rows; ++row) {
        T* const to = g.dq.at(row / p.queries / p.heads, row / p.queries % p.heads, row % p.queries);
#pragma omp simd
        for (int64_t d = 0; d < p.columns; ++d) {
            Wide total = 0;
            for (int64_t slice = 0; slice < g.slices; ++slice) total += g.partial_dq[(slice * rows + row) * p.columns + d];
            kl::narrow(total * p.scale, to[d]);
        }
    }
}

template <class Pass>
void forward(const Problem& p, const Heads& y, Wide* lse, int64_t threads) {
    const int64_t per_group = p.blocks_of_group(), blocks = p.batches * p.groups * per_group;
#pragma omp parallel num_threads(threads) if (blocks > 1)
    {
        Pass pass(p, y, lse);
#pragma omp for schedule(dynamic)
        for (int64_t index = 0; index < blocks; ++index) {
            // With a causal mask the last queries see most keys: they come first.
            const int64_t group = index / per_group % p.groups, batch = index / per_group / p.groups;
            pass.run(Block(p, batch, group, per_group - 1 - index % per_group));
        }
    }
}

}  // namespace

// The parameters that describe a problem, as cpp.py passes them.
#define KL_HEADS(name) kl::T *name, int64_t name##_batch, int64_t name##_head, int64_t name##_row
#define KL_HEADS_OF(name) kl::Heads{name, name##_batch, name##_head, name##_row}
#define KL_PROBLEM                                                                                                   \
    KL_HEADS(q), KL_HEADS(k), KL_HEADS(v), kl::T *bias, int64_t bias_batch, int64_t bias_head, int64_t bias_query,   \
        int64_t bias_key, int64_t batches, int64_t heads, int64_t groups, int64_t queries, int64_t keys,             \
        int64_t columns, double scale, int64_t first, int64_t last, int64_t seed, int64_t offset, int64_t last_kept, \
        double factor, int64_t padded_keys, int64_t dropout, int64_t threads
#define KL_PROBLEM_OF                                                                                                 \
    {batches, heads, groups, queries, keys, columns, KL_HEADS_OF(q), KL_HEADS_OF(k), KL_HEADS_OF(v),                  \
     {bias, bias_batch, bias_head, bias_query, bias_key}, kl::Wide(scale), first, last,                              \
     {{seed, offset}, uint32_t(last_kept), kl::Wide(factor), padded_keys, dropout != 0}}

// `lse` is [batch, heads, queries].
extern "C" void attention(KL_PROBLEM, KL_HEADS(y), Wide* lse) {
    const Problem problem = KL_PROBLEM_OF;
    const Heads result = KL_HEADS_OF(y);
    if (!problem.dropout.active && problem.heads_per_block() * queries <= kl::ForwardOfFew::kMost) {
        forward<kl::ForwardOfFew>(problem, result, lse, threads);
    } else {
        forward<Forward>(problem, result, lse, threads);
    }
}

extern "C" void attention_backward(KL_PROBLEM, KL_HEADS(dy), KL_HEADS(y), const Wide* lse, KL_HEADS(dq), KL_HEADS(dk),
                                   KL_HEADS(dv), kl::T* dbias, Wide* partial_dq, int64_t slices) {
    const Problem problem = KL_PROBLEM_OF;
    const int64_t keys_per_slice = kl::round_up((keys + slices - 1) / slices, kKeys);
    const Gradients gradients{KL_HEADS_OF(dy), KL_HEADS_OF(y), lse, KL_HEADS_OF(dq), KL_HEADS_OF(dk), KL_HEADS_OF(dv),
                              dbias, partial_dq, slices, keys_per_slice};
    const int64_t tasks = batches * groups * slices;
#pragma omp parallel num_threads(threads) if (tasks > 1)
    {
        Backward pass(problem, gradients);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tasks; ++task)
            pass.run(task / slices / groups, task / slices % groups, task % slices);
    }
    if (dq && slices > 1) add_slices(problem, gradients, threads);
}
