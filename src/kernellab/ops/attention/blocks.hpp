// What both passes of attention share: the tensors, blocks of queries, and the scores of a block of keys.
//
// The matrices of a block have a column for each query: the lanes of vectors are queries. Sums over keys, as a softmax
// has them, then need no sum over the lanes of a vector, and keys and values are read in the order of their memory.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "../exp.hpp"
#include "../philox.hpp"
#include "products.hpp"
#include "../rows.hpp"

namespace kl {

constexpr int kQueries = kTileVectors * kLanes;  // the most of a block
constexpr int kKeys = 16 * kTileRows;  // of a block; a multiple of 4, because the words of four keys are drawn at once
constexpr Wide kInfinity = std::numeric_limits<Wide>::infinity();

// [batch, heads, rows, columns] with neighbouring columns.
struct Heads {
    T* start;
    int64_t batch, head, row;

    T* at(int64_t b, int64_t h, int64_t i) const { return start + b * batch + h * head + i * row; }
};

// [batch, heads, queries, keys]; null where there is none.
struct Bias {
    T* start;
    int64_t batch, head, query, key;

    T* at(int64_t b, int64_t h, int64_t i) const { return start + b * batch + h * head + i * query; }
};

// What the weights of pairs are multiplied by: `factor`, or 0 where their random word is larger than `last_kept`.
struct Dropout {
    Philox philox;
    uint32_t last_kept;
    Wide factor;
    int64_t padded_keys;  // from the first word of a query to that of the next
    bool active;
};

struct Problem {
    int64_t batches, heads, groups, queries, keys, columns;  // heads of a group share keys and values
    Heads q, k, v;
    Bias bias;
    Wide scale;
    int64_t first, last;  // query i sees key j where first ≤ j − i ≤ last
    Dropout dropout;

    // The number of a query among those of all heads.
    int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * heads + h) * queries + i; }
    int64_t group_size() const { return heads / groups; }
    // Heads with few queries share a block.
    int64_t heads_per_block() const { return std::clamp<int64_t>(kQueries / queries, 1, group_size()); }
    int64_t head_blocks() const { return (group_size() + heads_per_block() - 1) / heads_per_block(); }
    int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
    int64_t blocks_of_group() const { return head_blocks() * query_blocks(); }
};

// Memory of one thread, used for every block. Rows are an odd number of cache lines apart: so they do not compete for
// the same places in the cache.
class Scratch {
public:
    Matrix<Wide> matrix(int64_t rows, int64_t columns) {
        constexpr int64_t kLine = 64 / sizeof(Wide);
        const int64_t pitch = (round_up(columns, kLine) / kLine | 1) * kLine;
        parts_.emplace_back(static_cast<Wide*>(std::aligned_alloc(64, rows * pitch * sizeof(Wide))), &std::free);
        return {parts_.back().get(), pitch};
    }

private:
    std::vector<std::unique_ptr<Wide, decltype(&std::free)>> parts_;
};

// The queries of some heads that share keys and values, and which keys each of them sees.
struct Block {
    int64_t batch, group;
    int64_t count;  // of queries
    int64_t width;  // with those that fill up the last vector, which see no key
    int64_t head[kQueries], query[kQueries];
    int32_t begin[kQueries], end[kQueries];  // query m sees keys from begin[m] to before end[m]
    int64_t first_key, end_key;  // seen by some
    int64_t common_first, common_end;  // seen by all

    Block(const Problem& p, int64_t batch, int64_t group, int64_t index) : batch(batch), group(group) {
        const int64_t size = p.group_size(), together = p.heads_per_block();
        const int64_t head_from = index % p.head_blocks() * together, heads = std::min(together, size - head_from);
        const int64_t query_from = index / p.head_blocks() * kQueries;
        const int64_t queries = std::min<int64_t>(kQueries, p.queries - query_from);
        count = heads * queries;
        width = round_up(count, kFewestLanes);
        first_key = common_end = p.keys;
        end_key = common_first = 0;
        for (int64_t m = 0; m < width; ++m) {
            const bool real = m < count;
            head[m] = real ? group * size + head_from + m / queries : 0;
            query[m] = real ? query_from + m % queries : 0;
            const int64_t from = std::clamp<int64_t>(query[m] + p.first, 0, p.keys);
            const int64_t to = std::clamp<int64_t>(query[m] + p.last + 1, from, p.keys);
            begin[m] = real ? int32_t(from) : 0;
            end[m] = real ? int32_t(to) : 0;
            if (real && from < to) first_key = std::min(first_key, from);
            if (real) end_key = std::max(end_key, to);
            if (real) common_first = std::max(common_first, from);
            if (real) common_end = std::min(common_end, to);
        }
        first_key = first_key / 4 * 4;
    }
};

// f(width), where the width is a number or, if the block is full, a type that says so at compile time.
template <class F>
void with_width(const Block& block, F f) {
    if (block.width == kQueries) {
        f(std::integral_constant<int64_t, kQueries>{});
    } else {
        f(block.width);
    }
}

// to[column][query] of the block's rows of a tensor, times a factor.
inline void load_columns(const Block& block, const Heads& from, int64_t columns, Wide factor, Matrix<Wide> to) {
    for (int64_t m = 0; m < block.width; ++m) {
        if (m < block.count) {
            const T* const row = from.at(block.batch, block.head[m], block.query[m]);
            for (int64_t d = 0; d < columns; ++d) to.row(d)[m] = widen(row[d]) * factor;
        } else {
            for (int64_t d = 0; d < columns; ++d) to.row(d)[m] = 0;
        }
    }
}

inline void load_row(const T* from, int64_t columns, Wide* to, int64_t padded) {
#pragma omp simd
    for (int64_t d = 0; d < columns; ++d) to[d] = widen(from[d]);
    std::fill(to + columns, to + padded, Wide(0));
}

// The block's rows of a tensor.
inline void load_rows(const Block& block, const Heads& from, int64_t columns, Matrix<Wide> to, int64_t padded) {
    for (int64_t m = 0; m < block.width; ++m) {
        const bool real = m < block.count;
        load_row(real ? from.at(block.batch, block.head[m], block.query[m]) : nullptr, real ? columns : 0, to.row(m),
                 padded);
    }
}

// Rows [from, from + count) of keys or values, filled up with zeros to a multiple of kTileRows, as are their columns.
inline void load_keys(const Heads& heads, int64_t b, int64_t group, int64_t from, int64_t count, int64_t columns,
                      Matrix<Wide> to) {
    const int64_t padded = round_up(columns, kTileRows);
    for (int64_t j = 0; j < count; ++j) load_row(heads.at(b, group, from + j), columns, to.row(j), padded);
    for (int64_t j = count; j < round_up(count, kTileRows); ++j) std::fill(to.row(j), to.row(j) + padded, Wide(0));
}

// Turns products of queries and `count` keys from `from` on into scores: adds the bias, and sets −∞ where a query does
// not see a key.
inline void finish_scores(const Problem& p, const Block& block, int64_t from, int64_t count, Matrix<Wide> scores) {
    if (p.bias.start) {
        for (int64_t m = 0; m < block.count; ++m) {
            const T* const bias = p.bias.at(block.batch, block.head[m], block.query[m]) + from * p.bias.key;
            for (int64_t j = 0; j < count; ++j) scores.row(j)[m] += widen(bias[j * p.bias.key]);
        }
    }
    if (from >= block.common_first && from + count <= block.common_end) return;
    for (int64_t j = 0; j < count; ++j) {
        Wide* const row = scores.row(j);
        const int32_t key = int32_t(from + j);
#pragma omp simd
        for (int64_t m = 0; m < block.width; ++m)
            row[m] = (key >= block.begin[m]) & (key < block.end[m]) ? row[m] : -kInfinity;
    }
}

// What dropout multiplies the weights of `count` keys from `from` on by, which is a multiple of 4.
inline void draw_factors(const Problem& p, const Block& block, int64_t from, int64_t count, Matrix<Wide> factors) {
    int64_t counter[kQueries];
    for (int64_t m = 0; m < block.width; ++m)
        counter[m] = (p.row(block.batch, block.head[m], block.query[m]) * p.dropout.padded_keys + from) / 4;
    for (int64_t j = 0; j < count; j += 4) {
        Wide* const rows[4] = {factors.row(j), factors.row(j + 1), factors.row(j + 2), factors.row(j + 3)};
#pragma omp simd
        for (int64_t m = 0; m < block.width; ++m) {
            uint32_t words[4];
            p.dropout.philox.block_words(counter[m] + j / 4, words);
            for (int i = 0; i < 4; ++i) rows[i][m] = words[i] <= p.dropout.last_kept ? p.dropout.factor : Wide(0);
        }
    }
}

}  // namespace kl
