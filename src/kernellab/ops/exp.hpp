// eᵗ in vector code. The C library's exp is a call per element: it vectorises only under -ffast-math, which
// would also lose NaN and infinity.
#pragma once

#include <cmath>

#include "dtypes.hpp"

namespace kl {

// eᵗ for t ≤ 0 or NaN, which is all that softmax and GeLU need: it cannot overflow.
inline double exp_neg(double t) { return std::exp(t); }

// eᵗ = 2ⁿ·eʳ with n = round(t/ln 2), |r| ≤ ln 2/2, and eʳ ≈ 1 + r + r²·q(r). q is the minimax fit in the
// relative error of eʳ (Remez exchange in 40 digits, then rounded to float32), at most 2⁻²⁸. With the
// roundings of the evaluation the result is within 1.01 ulp. Below −87.7, where eᵗ is subnormal, it is 0.
inline float exp_neg(float t) {
    constexpr float kLow = -88.0f;  // n = −127: the scale is then exactly 0
    t = t < kLow ? kLow : t;  // in this order NaN passes
    // In [2²³, 2²⁴) the spacing of floats is 1: adding 1.5·2²³ rounds, and leaves n in the low bits.
    constexpr float kShift = 0x1.8p23f;
    const float shifted = t * 0x1.715476p+0f + kShift;  // 1/ln 2
    const float n = shifted - kShift;
    // ln 2 in two parts, the first short enough for n·355/512 to be exact.
    const float r = t - n * (355.0f / 512) - n * -0x1.bd0106p-13f;
    float q = 0x1.6a23dp-10f;
    q = q * r + 0x1.123a2p-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    const float scale = float_of((bits_of(shifted) - bits_of(kShift) + 127) << 23);  // 2ⁿ
    return (1 + (r + r * r * q)) * scale;
}

}  // namespace kl
