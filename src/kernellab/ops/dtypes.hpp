// Element types: each is widened to the type of its arithmetic, and rounded back once at the end.
// The conversions use integer arithmetic and compute every case before selecting one. Compilers turn this
// into vector code on any target, which GCC before 14 does not do for _Float16.
#pragma once

#include <cstdint>
#include <cstring>

namespace kl {

struct float16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline double widen(double value) { return value; }
inline float widen(float value) { return value; }
inline float widen(bfloat16 value) { return float_of(uint32_t(value.bits) << 16); }

inline float widen(float16 value) {
    const uint32_t sign = uint32_t(value.bits & 0x8000) << 16;
    const uint32_t size = value.bits & 0x7fff;
    // Exponent biases differ by 127 − 15 = 112. Infinity and NaN get the highest exponent. A subnormal
    // number has no leading 1: it is given one, 2⁻¹⁴, which the subtraction removes again.
    const bool tiny = size < 0x0400;
    const uint32_t bias = tiny ? 113u << 23 : size < 0x7c00 ? 112u << 23 : 224u << 23;
    const float result = float_of((size << 13) + bias) - (tiny ? 0x1p-14f : 0.0f);
    return float_of(bits_of(result) | sign);
}

inline void narrow(double value, double& out) { out = value; }
inline void narrow(float value, float& out) { out = value; }

inline void narrow(float value, bfloat16& out) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to nearest, ties to even
    const uint32_t nan = bits >> 16 | 0x40;  // rounding could carry a NaN into infinity
    out.bits = uint16_t((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

inline void narrow(float value, float16& out) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t size = bits & 0x7fffffff;
    const uint32_t normal = (size - (112u << 23) + 0x0fff + (size >> 13 & 1)) >> 13;
    // Adding ½ rounds to a multiple of 2⁻²⁴, the spacing of the subnormals.
    const uint32_t tiny = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
    const uint32_t infinite = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    out.bits = uint16_t(sign | (size < 0x38800000 ? tiny : size < 0x477ff000 ? normal : infinite));
}

template <class T>
using wide = decltype(widen(T{}));

// The element type of this build: building one type (-DKL_T=bfloat16) takes a third of the time of all four.
#ifndef KL_T
#define KL_T float
#endif
using T = KL_T;

}  // namespace kl
