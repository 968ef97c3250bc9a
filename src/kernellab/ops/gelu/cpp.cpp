// GeLU = x·Φ(x), in forms whose error stays small where 1 + tanh or 1 + erf would cancel.
// x = −∞ is −∞·0 = NaN, as in PyTorch.
#include "../exp.hpp"
#include "../rows.hpp"

namespace {

// ½·(1 + tanh u) = 1 / (1 + e⁻²ᵘ) = e²ᵘ / (1 + e²ᵘ), with 2u = 2·√(2/π)·(x + 0.044715·x³).
template <class V>
inline V tanh_value(V x) {
    constexpr V kLinear = V(1.5957691216057307118), kCubic = V(0.071354816272600248776);
    const V e = kl::exp_neg(-std::fabs(x) * (kLinear + kCubic * (x * x)));
    return (x > 0 ? x : x * e) / (1 + e);
}

inline double erf_value(double x) { return 0.5 * x * std::erfc(x * -0.70710678118654752440); }

// Φ(−a) = e^(−a²/2)·g(a). With t = 1/(1 + 0.34·a) and w = 1 − t, g(a)/t is nearly a polynomial in w, whose
// constant term ½ keeps small x exact. The others are the minimax fit in relative error on 0 ≤ a ≤ 14, beyond
// which e^(−a²/2) is 0 (Remez exchange in 40 digits, then rounded to float32; of the factors tried, 0.34
// needs the fewest terms). The error is at most 2⁻²⁴·⁹.
inline float upper_tail(float a) {
    const float t = 1 / (1 + 0.34f * a);
    const float w = 0.34f * a * t;  // 1 − t would keep only the leading digits of a small a
    float p = -0x1.acd446p-6f;
    p = p * w + 0x1.1d5c64p-4f;
    p = p * w + -0x1.d0427p-6f;
    p = p * w + -0x1.e8fff4p-6f;
    p = p * w + -0x1.3af13cp-4f;
    p = p * w + 0x1.5ab986p-4f;
    p = p * w + 0x1.437da8p-2f;
    p = p * w + -0x1.58c2aap-1f;
    p = p * w + 0.5f;
    return kl::exp_neg(-0.5f * a * a) * (p * t);
}

inline float erf_value(float x) {
    // ∞·t would be NaN in upper_tail; NaN itself passes.
    const float tail = upper_tail(std::fabs(x) > 14 ? 14 : std::fabs(x));
    return x * (x > 0 ? 1 - tail : tail);
}

// With s = 1/(1 + e⁻²ᵘ), y = x·s and y' = s + x·s·(1 − s)·2u'. From e = e^(−|2u|): s·(1 − s) = e/(1 + e)², which is 0
// beyond |x| = 16 in float32; u' is kept finite there, because 0·∞ would be NaN.
template <class V>
inline V tanh_slope(V x) {
    constexpr V kLinear = V(1.5957691216057307118), kCubic = V(0.071354816272600248776);
    const V square = x * x;
    const V e = kl::exp_neg(-std::fabs(x) * (kLinear + kCubic * square));
    const V s = (x > 0 ? 1 : e) / (1 + e);
    const V finite = square < 1024 ? square : V(1024);
    return s + x * (e / ((1 + e) * (1 + e)) * (kLinear + 3 * kCubic * finite));
}

inline double erf_slope(double x) {
    return 0.5 * std::erfc(x * -0.70710678118654752440) + x * (0.39894228040143267794 * std::exp(-0.5 * x * x));
}

// Φ(x) + x·φ(x). Φ comes from the fit above, so that it keeps its digits where it is small.
inline float erf_slope(float x) {
    const float a = std::fabs(x) > 14 ? 14 : std::fabs(x);
    const float tail = upper_tail(a);
    const float density = 0.3989422804f * kl::exp_neg(-0.5f * a * a);
    return (x > 0 ? 1 - tail : tail) + x * density;
}

}  // namespace

struct GeluTanh {
    template <class V>
    static V value(V x) { return tanh_value(x); }
    template <class V>
    static V slope(V x) { return tanh_slope(x); }
};

struct GeluErf {
    template <class V>
    static V value(V x) { return erf_value(x); }
    template <class V>
    static V slope(V x) { return erf_slope(x); }
};

KL_ACTIVATION(gelu_tanh, GeluTanh)
KL_ACTIVATION(gelu_erf, GeluErf)
