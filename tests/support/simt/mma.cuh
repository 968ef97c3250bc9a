// In place of the shipped mma.cuh: what its instructions do, by the layouts of fragments that the PTX ISA documents.
#pragma once

#include "vectors.cuh"

// Copies -------------------------------------------------------------------------------------------------------------
// A copy happens when it is waited for, and until then its destination holds NaNs: a kernel that reads it too early, or
// begins it while the destination is still read, gets a wrong result.

inline void copy_async(void* to, const void* from, int count) {
    *static_cast<uint4*>(to) = {~0u, ~0u, ~0u, ~0u};
    if (count) (void)*static_cast<const volatile char*>(from);
    simt::block->copies().back().push_back({to, from, count});
}
inline void copy_commit() { simt::block->copies().emplace_back(); }

template <int LAST>
void copy_wait() {
    auto& groups = simt::block->copies();
    for (; groups.size() > LAST + 1; groups.erase(groups.begin()))
        for (const simt::Copy& copy : groups.front()) {
            char bytes[16] = {};
            std::memcpy(bytes, copy.from, copy.count);
            std::memcpy(copy.to, bytes, 16);
        }
}

// Fragments ----------------------------------------------------------------------------------------------------------

inline void load_matrices(unsigned (&words)[4], const void* row) {
    const unsigned lane = simt::block->current % simt::kWarp;
    const simt::Words* rows = simt::block->exchange(simt::pack(static_cast<const uint4*>(row)));
    for (unsigned i = 0; i < 4; i++) {
        const uint4 chunk = *simt::unpack<const uint4*>(rows[8 * i + lane / 4]);
        words[i] = reinterpret_cast<const unsigned*>(&chunk)[lane % 4];
    }
}
inline void load_transposed(unsigned (&words)[4], const void* row) {
    const unsigned lane = simt::block->current % simt::kWarp;
    const simt::Words* rows = simt::block->exchange(simt::pack(static_cast<const uint4*>(row)));
    for (unsigned i = 0; i < 4; i++) {
        words[i] = 0;
        for (unsigned k = 0; k < 2; k++) {
            const uint4 chunk = *simt::unpack<const uint4*>(rows[8 * i + 2 * (lane % 4) + k]);
            words[i] |= unsigned(reinterpret_cast<const unsigned short*>(&chunk)[lane / 4]) << 16 * k;
        }
    }
}

// Products -----------------------------------------------------------------------------------------------------------

// An element of a word, and how many a word has.
template <typename T>
struct WordOf {
    static constexpr unsigned COUNT = 2;
    static float element(unsigned word, unsigned k) {
        const unsigned short bits = word >> 16 * k;
        T value;
        std::memcpy(&value, &bits, 2);
        return to_float(value);
    }
};
// Tensor cores read the upper 19 bits of a float.
template <>
struct WordOf<float> {
    static constexpr unsigned COUNT = 1;
    static float element(unsigned word, unsigned) { return __uint_as_float(word & 0xFFFFE000u); }
};

template <typename T>
struct TensorCore {
    static unsigned operand(unsigned word) {
        if (sizeof(T) < 4 || !std::isfinite(__uint_as_float(word))) return word;
        return (word + 0x1000u) & 0xFFFFE000u;
    }
    static void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
        constexpr unsigned COUNT = WordOf<T>::COUNT, HALF = 4 * COUNT;  // elements of a half of the depth
        const unsigned lane = simt::block->current % simt::kWarp;
        const simt::Words* lanes = simt::block->exchange({{a[0], a[1], a[2], a[3], b[0], b[1]}});
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
            double sum = sums[i];
            for (unsigned k = 0; k < 2 * HALF; k++) {
                const unsigned word = k % HALF / COUNT, half = k / HALF;
                sum += double(WordOf<T>::element(lanes[row % 8 * 4 + word].of[row / 8 + 2 * half], k % COUNT)) *
                       WordOf<T>::element(lanes[col * 4 + word].of[4 + half], k % COUNT);
            }
            sums[i] = float(sum);
        }
    }
};
