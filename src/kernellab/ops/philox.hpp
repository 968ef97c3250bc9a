// Philox4x32-10, random words from a seed, an offset and an element's index: see philox.py.
#pragma once

#include <cstdint>

namespace kl {

class Philox {
public:
    Philox(int64_t seed, int64_t offset)
        : key_{uint32_t(seed), uint32_t(seed >> 32)}, offset_{uint32_t(offset), uint32_t(offset >> 32)} {}

    // The words of elements 4·block to 4·block + 3.
    void block_words(int64_t block, uint32_t (&words)[4]) const {
        uint32_t c0 = uint32_t(block), c1 = uint32_t(block >> 32), c2 = offset_[0], c3 = offset_[1];
        uint32_t k0 = key_[0], k1 = key_[1];
        for (int round = 0; round < 10; ++round) {
            const uint64_t a = uint64_t(0xD2511F53) * c0, b = uint64_t(0xCD9E8D57) * c2;
            c0 = uint32_t(b >> 32) ^ c1 ^ k0;
            c1 = uint32_t(b);
            c2 = uint32_t(a >> 32) ^ c3 ^ k1;
            c3 = uint32_t(a);
            k0 += 0x9E3779B9;
            k1 += 0xBB67AE85;
        }
        words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
    }

    // The word of one element.
    uint32_t word(int64_t index) const {
        uint32_t words[4];
        block_words(index >> 2, words);
        const uint32_t low = index & 1 ? words[1] : words[0], high = index & 1 ? words[3] : words[2];
        return index & 2 ? high : low;
    }

private:
    uint32_t key_[2], offset_[2];
};

}  // namespace kl
